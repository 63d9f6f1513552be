package browser

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
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

// Tab is an open page, with the errors in it.
type Tab struct {
	t       *testing.T
	ctx     context.Context
	allowed func(address string) bool

	mu       sync.Mutex
	requests []string
	errors   []string // exceptions, and messages on the console
	expected []string // parts of those that the test causes
}

// Open starts a browser and opens an address. When the test ends, it fails if the page has had
// errors, or has requested an address that is not allowed.
func Open(
	t *testing.T, address string, allowed func(address string) bool, width, height int64,
	options ...chromedp.EmulateViewportOption,
) *Tab {
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
	page := &Tab{t: t, ctx: ctx, allowed: allowed}
	if err := chromedp.Listen(ctx, page.hear); err != nil {
		t.Fatalf("the browser did not start: %v", err)
	}
	_, err := chromedp.Call(ctx, network.Enable, network.EnableParams{})
	page.check(err)
	page.Do(chromedp.EmulateViewport(width, height, options...))
	page.Do(chromedp.Navigate(address))
	t.Cleanup(page.quiet)
	return page
}

func (p *Tab) hear(event any) {
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

// Expect allows errors of the page that hold a text, because the test causes them.
func (p *Tab) Expect(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expected = append(p.expected, text)
}

// quiet fails if the page has requested what it must not, or had errors.
func (p *Tab) quiet() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.requests) == 0 {
		p.t.Error("no request of the page was seen")
	}
	for _, address := range p.requests {
		if !p.allowed(address) {
			p.t.Errorf("the page requested %s", address)
		}
	}
	p.errors = slices.DeleteFunc(p.errors, func(e string) bool {
		return slices.ContainsFunc(p.expected, func(text string) bool {
			return strings.Contains(e, text)
		})
	})
	if len(p.errors) > 0 {
		p.t.Errorf("the page had errors: %s", strings.Join(p.errors, "\n"))
	}
}

func (p *Tab) check(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatalf("browser: %v", err)
	}
}

// Do runs an action of chromedp.
func (p *Tab) Do(a chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	p.check(chromedp.Do(p.ctx, a))
}

// Wait waits until a JavaScript expression is true.
func (p *Tab) Wait(expression string) {
	p.t.Helper()
	_, err := chromedp.Run(p.ctx,
		chromedp.Poll[bool]("Boolean("+expression+")", chromedp.WithPollingTimeout(patience)))
	if err != nil {
		p.t.Fatalf("the page never reached %s: %v", expression, err)
	}
}

// Eval returns the value of a JavaScript expression. It is a function, because methods have no type
// parameters.
func Eval[T any](p *Tab, expression string) T {
	p.t.Helper()
	v, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// Want fails if a JavaScript expression does not have the wanted value.
func Want[T comparable](p *Tab, expression string, wanted T) {
	p.t.Helper()
	if got := Eval[T](p, expression); got != wanted {
		p.t.Errorf("%s is %v, want %v", expression, got, wanted)
	}
}

// Text returns the text of an element as it is shown.
func (p *Tab) Text(selector string) string {
	p.t.Helper()
	return Eval[string](p, fmt.Sprintf("document.querySelector(%q).innerText", selector))
}

// WantText fails if the text of an element lacks one of the parts, in upper or lower case.
func (p *Tab) WantText(selector string, parts ...string) {
	p.t.Helper()
	text := p.Text(selector)
	for _, part := range parts {
		if !strings.Contains(strings.ToLower(text), strings.ToLower(part)) {
			p.t.Errorf("%s says %q, which has no %q", selector, text, part)
		}
	}
}

// Settle waits until the page has drawn its changes.
func (p *Tab) Settle() {
	p.t.Helper()
	_, err := chromedp.Run(p.ctx, chromedp.Evaluate[bool](`new Promise((done) =>
		requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`,
		chromedp.EvalAwaitPromise))
	p.check(err)
}

// Click clicks on an element and waits until the page has drawn the change.
func (p *Tab) Click(selector string) {
	p.t.Helper()
	p.Do(chromedp.Click(chromedp.CSS(selector)))
	p.Settle()
}

// Press types keys and waits until the page has drawn the change.
func (p *Tab) Press(keys string) {
	p.t.Helper()
	p.Do(chromedp.KeyEvent(keys))
	p.Settle()
}

// Dark has the page use its dark colours.
func (p *Tab) Dark() {
	p.t.Helper()
	p.Scheme("dark")
}

// Scheme has the page use its light or dark colours.
func (p *Tab) Scheme(name string) {
	p.t.Helper()
	_, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}})
	p.check(err)
	p.Settle()
}

// Screenshot saves a picture of what is visible of the page, as a PNG.
func (p *Tab) Screenshot(file string) {
	p.t.Helper()
	picture, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	p.check(err)
	p.check(os.WriteFile(file, picture, 0o644))
}
