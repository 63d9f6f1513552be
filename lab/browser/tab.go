package report_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/ringfence/ringfence/lab/check"
	"github.com/ringfence/ringfence/lab/history"
	"github.com/ringfence/ringfence/lab/report"
)

const (
	deadline = 3 * time.Minute // for everything that one test does in the browser
	patience = time.Minute     // for one event
)

// browsers are the names of Chromium and Chrome on Debian, Ubuntu, Fedora and macOS.
var browsers = []string{
	"chromium", "chromium-browser", "google-chrome", "google-chrome-stable",
	"/Applications/Chromium.app/Contents/MacOS/Chromium",
	"/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
}

func findBrowser(t *testing.T) string {
	t.Helper()
	for _, name := range browsers {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatalf("the tests need headless Chromium, and there is none of %s; run make deps",
		strings.Join(browsers, ", "))
	return ""
}

// tab is an open page, with the errors in it.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	requests []string
	errors   []string // exceptions, and messages on the console
}

// open starts a browser and opens a file. The page must not request anything else, and must not
// have errors.
func open(
	t *testing.T, file string, width, height int64, options ...chromedp.EmulateViewportOption,
) *tab {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	t.Cleanup(cancel)
	flags := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(findBrowser(t)),
		chromedp.DisableGPU,
		chromedp.WSURLReadTimeout(patience),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("hide-scrollbars", true))
	if os.Geteuid() == 0 {
		flags = append(flags, chromedp.NoSandbox) // Chromium refuses to start as root with one
	}
	ctx, stop := chromedp.NewExecAllocator(ctx, flags...)
	t.Cleanup(stop)
	ctx, closeTab := chromedp.NewContext(ctx)
	t.Cleanup(closeTab)
	page := &tab{t: t, ctx: ctx}
	if err := chromedp.Listen(ctx, page.hear); err != nil {
		t.Fatalf("the browser did not start: %v", err)
	}
	_, err := chromedp.Call(ctx, network.Enable, network.EnableParams{})
	page.check(err)
	page.do(chromedp.EmulateViewport(width, height, options...))
	page.do(chromedp.Navigate(address(file)))
	page.wait(`window.report && document.getElementById('picture').dataset.from !== undefined`)
	t.Cleanup(func() { page.quiet(address(file)) })
	return page
}

func address(file string) string { return (&url.URL{Scheme: "file", Path: file}).String() }

func (p *tab) hear(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		p.requests = append(p.requests, e.Request.URL)
	case *runtime.EventExceptionThrown:
		p.errors = append(p.errors,
			e.ExceptionDetails.Text+" "+fmt.Sprint(e.ExceptionDetails.Exception))
	case *runtime.EventConsoleAPICalled:
		p.errors = append(p.errors, fmt.Sprint(e.Type, " ", e.Args))
	case *log.EventEntryAdded:
		p.errors = append(p.errors, e.Entry.Text)
	}
}

// quiet fails if the page has loaded anything but its file, or had errors.
func (p *tab) quiet(file string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.requests) != 1 || p.requests[0] != file {
		p.t.Errorf("the page requested %q, want only its own file", p.requests)
	}
	if len(p.errors) > 0 {
		p.t.Errorf("the page had errors: %s", strings.Join(p.errors, "\n"))
	}
}

func (p *tab) check(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatalf("browser: %v", err)
	}
}

func (p *tab) do(a chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	p.check(chromedp.Do(p.ctx, a))
}

func (p *tab) wait(expression string) {
	p.t.Helper()
	_, err := chromedp.Run(p.ctx,
		chromedp.Poll[bool]("Boolean("+expression+")", chromedp.WithPollingTimeout(patience)))
	if err != nil {
		p.t.Fatalf("the page never reached %s: %v", expression, err)
	}
}

// eval is a function, because methods have no type parameters.
func eval[T any](p *tab, expression string) T {
	p.t.Helper()
	v, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

func want[T comparable](p *tab, expression string, wanted T) {
	p.t.Helper()
	if got := eval[T](p, expression); got != wanted {
		p.t.Errorf("%s is %v, want %v", expression, got, wanted)
	}
}

func (p *tab) text(selector string) string {
	p.t.Helper()
	return eval[string](p, fmt.Sprintf("document.querySelector(%q).innerText", selector))
}

func (p *tab) wantText(selector string, parts ...string) {
	p.t.Helper()
	text := p.text(selector)
	for _, part := range parts {
		if !strings.Contains(strings.ToLower(text), strings.ToLower(part)) {
			p.t.Errorf("%s says %q, which has no %q", selector, text, part)
		}
	}
}

// settle waits until the page has drawn its changes.
func (p *tab) settle() {
	p.t.Helper()
	_, err := chromedp.Run(p.ctx, chromedp.Evaluate[bool](`new Promise((done) =>
		requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`,
		chromedp.EvalAwaitPromise))
	p.check(err)
}

// colours defines a function for tests: the colour of the picture at a place in CSS pixels. It
// reads a copy of that pixel. The page itself never reads its canvas and needs no such function.
func (p *tab) colours() {
	p.t.Helper()
	p.do(chromedp.Evaluate[chromedp.Void](`
		window.pixel = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
		window.colour = (x, y) => {
			pixel.clearRect(0, 0, 1, 1);
			const at = (v) => Math.round(v * devicePixelRatio);
			pixel.drawImage(document.getElementById('timeline'), at(x), at(y), 1, 1, 0, 0, 1, 1);
			return [...pixel.getImageData(0, 0, 1, 1).data];
		};`))
}

func (p *tab) click(selector string) {
	p.t.Helper()
	p.do(chromedp.Click(chromedp.CSS(selector)))
	p.settle()
}

func (p *tab) press(keys string) {
	p.t.Helper()
	p.do(chromedp.KeyEvent(keys))
	p.settle()
}

// save writes a run as the lab does, and returns the page's path.
func save(t *testing.T, events []history.Event, r check.Result) string {
	t.Helper()
	dir := t.TempDir()
	if err := report.Save(dir, events, r); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, report.PageFile)
}
