package report_test

import (
	"net/url"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/ringfence/ringfence/lab/browser"
	"github.com/ringfence/ringfence/lab/check"
	"github.com/ringfence/ringfence/lab/history"
	"github.com/ringfence/ringfence/lab/report"
)

// tab is an open report.
type tab struct {
	*browser.Tab
	t *testing.T
}

// open opens a report, which must load nothing but its own file.
func open(
	t *testing.T, file string, width, height int64, options ...chromedp.EmulateViewportOption,
) *tab {
	t.Helper()
	own := (&url.URL{Scheme: "file", Path: file}).String()
	only := func(address string) bool { return address == own }
	p := &tab{browser.Open(t, own, only, width, height, options...), t}
	p.Wait(`window.report && document.getElementById('picture').dataset.from !== undefined`)
	return p
}

func eval[T any](p *tab, expression string) T {
	p.t.Helper()
	return browser.Eval[T](p.Tab, expression)
}

func want[T comparable](p *tab, expression string, wanted T) {
	p.t.Helper()
	browser.Want(p.Tab, expression, wanted)
}

// colours defines a function for tests: the colour of the picture at a place in CSS pixels. It
// reads a copy of that pixel. The page itself never reads its canvas and needs no such function.
func (p *tab) colours() {
	p.t.Helper()
	p.Do(chromedp.Evaluate[chromedp.Void](`
		window.pixel = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
		window.colour = (x, y) => {
			pixel.clearRect(0, 0, 1, 1);
			const at = (v) => Math.round(v * devicePixelRatio);
			pixel.drawImage(document.getElementById('timeline'), at(x), at(y), 1, 1, 0, 0, 1, 1);
			return [...pixel.getImageData(0, 0, 1, 1).data];
		};`))
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
