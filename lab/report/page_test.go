package report_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lab/check"
	"github.com/ringfence/ringfence/lab/history"
)

func TestPageOfAValidRun(t *testing.T) {
	r := valid()
	p := open(t, save(t, r.events, r.result), 1280, 800)
	p.WantText("#verdict", "✓", "valid")
	p.WantText("#scenario", "succession")
	p.WantText("#command", r.result.Header.Command)
	p.WantText("#seed", "20260203")
	p.WantText(".about", "paused past its session")
	p.WantText(".tiles", "stale writes accepted",
		fmt.Sprintf("%d / %d", r.result.Figures.StaleRefused,
			r.result.Figures.StaleAttempts), "64ms", "1.112s")
	want(p, `document.getElementById('first').disabled`, true)
	want(p, `document.querySelectorAll('#problems').length`, 0)

	want(p, `[...document.querySelectorAll('[data-lane]')].map((e) => e.innerText).join()`,
		"worker-1,worker-2,worker-3,guard-1")
	want(p, `report.data.lanes.map((l) => l.rows.join('+')).join()`,
		"postgres+redis,postgres+redis,postgres+redis,")
	want(p, `report.data.bands.map((b) => b.name + ':' + b.lanes).join()`,
		"pause leader:0,cut leader from coordinator:1,kill guard:3,depose leader:2")
	want(p, `document.querySelectorAll('#faults tbody tr').length`, 4)
	want(p, `document.querySelectorAll('#terms tbody tr').length`, 4)
	want(p, `report.data.stairs.map((s) =>
		s.store + ':' + s.steps.map((n) => report.data.tokens[n.token])).join(';')`,
		"postgres:9,13,21,30;redis:9,13,21,30")
	want(p, `report.data.bars.filter((b) => b.state === 'ready').map((b) =>
		b.lane + ':' + report.data.tokens[b.token]).join()`, "0:9,0:30,1:13,2:21")
	want(p, `report.count().stale`, r.result.Figures.StaleRefused)
	want(p, `report.count().unknown`, 3)
	want(p, `report.count().ok`, r.result.Figures.Acknowledged+8)
	want(p, `report.count().other`, 14)
	want(p, `report.count().accepted ?? 0`, 0)
	for _, mark := range []string{"ok", "stale", "unknown", "other"} {
		if eval[int](p, fmt.Sprintf("report.drawn(%q)", mark)) == 0 {
			t.Errorf("no mark is drawn for %s", mark)
		}
	}
	want(p, `document.querySelectorAll('#unguarded, #control').length`, 0)
	want(p, `document.documentElement.scrollWidth > innerWidth`, false)
	p.Click("#copy")
	p.Wait(`['copied', 'selected'].includes(document.getElementById('copy').textContent)`)
}

// The colours of the canvas show that everything is drawn.
func TestCanvasShowsLanesBandsAndMarks(t *testing.T) {
	r, first, _ := invalid()
	p := open(t, save(t, r.events, r.result), 1280, 800)
	p.colours()
	p.Do(chromedp.Evaluate[chromedp.Void](`
		window.differ = (a, b) => colour(...a).some((v, i) => Math.abs(v - colour(...b)[i]) > 3);
		window.px = (ms) => (ms - report.view.from) / (report.view.to - report.view.from) *
			document.getElementById('timeline').clientWidth;
		window.near = (m) => report.hits().find((h) =>
			h.op !== undefined && report.data.ops[h.op].mark === m);`))
	guard := `document.querySelector('[data-lane="guard-1"]').offsetTop + 7`
	// Inside and outside of a band.
	want(p, `differ([px(4100), `+guard+`], [px(6100), `+guard+`])`, true)
	// The band's target.
	want(p, `differ([px(10400), `+guard+`], [px(4100), `+guard+`]) ||
		differ([px(10404), `+guard+`], [px(4100), `+guard+`])`, true)
	// A cross, and beside it.
	want(p, `(() => {
		const h = near('stale');
		return differ([h.x, h.y], [h.x, h.y + 7]);
	})()`, true)
	want(p, `(() => {
		const h = near('accepted'), c = colour(h.x - 6, h.y);
		return c[0] > 150 && c[1] < 90;
	})()`, true)
	want(p, `(() => {
		const h = report.hits().find((h) => h.bar && h.bar.state === 'ready');
		return differ([h.x, h.y + 5], [h.x, h.y + 12]);
	})()`, true)
	want(p, fmt.Sprintf(`report.where(%q).visible`, first), true)
}

func TestFirstViolation(t *testing.T) {
	r, first, second := invalid()
	p := open(t, save(t, r.events, r.result), 1280, 800)
	p.WantText("#control", "memory-mark was seeded")
	p.WantText(".chips", "memory-mark")
	want(p, `report.count().accepted`, 2)
	want(p, `report.drawn('accepted') > 0`, true)
	want(p, `document.querySelectorAll('#problems li').length`, 3)
	whole := eval[float64](p, `report.view.to - report.view.from`)

	p.Click("#first")
	p.WantText("#tip", "accepted", firstText, "token 13", first, "worker-2", "postgres", "commit",
		"10.903 s, after 3.0 ms")
	p.wantVisible(first)
	if span := eval[float64](p, `report.view.to - report.view.from`); span > whole/4 {
		t.Errorf("the view of a violation is %.0f ms of %.0f, want a close-up", span, whole)
	}
	want(p, `document.querySelector('#problems li.on').innerText.includes('postgres')`, true)

	p.Press("n")
	p.WantText("#tip", secondText, second)
	p.wantVisible(second)
	p.Press("p")
	p.WantText("#tip", firstText)
	p.Click(`[data-problem="1"]`)
	p.WantText("#tip", secondText)
	p.Click(`[data-problem="2"]`) // of the run as a whole: it has no place in the picture
	want(p, `report.view.to - report.view.from`, whole)
	p.Press("n")
	p.WantText("#tip", firstText)
	p.Click("#whole")
	want(p, `document.getElementById('tip').hidden`, true)
	want(p, `report.view.to - report.view.from`, whole)
}

func (p *tab) wantVisible(op string) {
	p.t.Helper()
	at := eval[struct {
		X, Y    float64
		Visible bool
	}](p, fmt.Sprintf("report.where(%q)", op))
	width, height := eval[float64](p, "innerWidth"), eval[float64](p, "innerHeight")
	if !at.Visible || at.X < 0 || at.X > width || at.Y < 0 || at.Y > height {
		p.t.Errorf("%s is at %+v, outside of the window of %v to %v", op, at, width, height)
	}
}

func TestZoomPanAndHover(t *testing.T) {
	r, first, _ := invalid()
	p := open(t, save(t, r.events, r.result), 1280, 800)
	span := func() float64 { return eval[float64](p, `report.view.to - report.view.from`) }
	from := func() float64 { return eval[float64](p, `report.view.from`) }
	smaller := func(what string, do func()) {
		t.Helper()
		before := span()
		do()
		if after := span(); after >= before {
			t.Errorf("%s: the view was %.0f ms, and is %.0f ms", what, before, after)
		}
	}
	smaller("button +", func() { p.Click("#in") })
	smaller("key +", func() { p.Press("+") })
	smaller("wheel", func() {
		p.Do(chromedp.Evaluate[chromedp.Void](
			`document.getElementById('timeline').dispatchEvent(new WheelEvent('wheel',
			{ deltaY: -100, clientX: 700, clientY: 400, cancelable: true, bubbles: true }))`))
		p.Settle()
	})
	before := from()
	p.Press(kb.ArrowRight)
	if from() <= before {
		t.Errorf("the right arrow did not move the view")
	}
	before = from()
	y := eval[float64](p, `document.getElementById('timeline').getBoundingClientRect().top + 8`)
	p.Do(chromedp.DragAndDropXY(500, y, 900, y))
	p.Settle()
	if from() >= before {
		t.Errorf("dragging to the right did not move the view to the left")
	}
	p.Press("0")
	p.Click("#first")
	at := eval[struct{ X, Y float64 }](p, fmt.Sprintf("report.where(%q)", first))
	p.Press("+")
	p.Do(chromedp.MouseEvent("mouseMoved", at.X, at.Y))
	p.Settle()
	want(p, `document.getElementById('tip').classList.contains('pinned')`, false)
	p.WantText("#tip", first, "accepted", "token 13")
}

func TestPageOnAPhone(t *testing.T) {
	r, first, _ := invalid()
	p := open(t, save(t, r.events, r.result), 390, 844, chromedp.EmulateMobile,
		chromedp.EmulateTouch)
	want(p, `document.documentElement.scrollWidth`, 390)
	p.WantText("#verdict", "CAUGHT")
	p.Click("#first")
	p.wantVisible(first)
	p.WantText("#tip", firstText)
	want(p, `(() => {
		const a = document.getElementById('tip').getBoundingClientRect();
		return a.left >= 0 && a.right <= 390;
	})()`, true)
	at := eval[struct{ X, Y float64 }](p, fmt.Sprintf("report.where(%q)", first))
	p.Press(kb.Escape)
	p.Click("#first")
	p.Do(chromedp.TapXY(at.X, at.Y))
	p.Settle()
	p.WantText("#tip", first)
	want(p, `document.documentElement.scrollWidth`, 390)
}

// Tokens can be above 2^53, and JavaScript cannot tell 2^53 from 2^53+1.
func TestTokensTooLargeForJavaScript(t *testing.T) {
	r := newRun("large", "")
	const large = fence.Token(1 << 53)
	r.result.Header.Seed = 1<<63 + 25
	r.leads(100, 300, "worker-1", large, 20)
	r.leads(400, 600, "worker-2", large+1, 20)
	p := open(t, save(t, r.events, r.result), 1280, 800)
	want(p, `[...document.querySelectorAll('.token')].map((e) => e.textContent).join()`,
		"9007199254740992,9007199254740993")
	p.WantText("#seed", "9223372036854775833")
	p.WantText("#terms", "9007199254740992", "9007199254740993")
}

// Texts come from outside. None may become a tag, end the data, or run as a script.
func TestTextIsNeverMarkupOrScript(t *testing.T) {
	const evil = `</script><script>window.evil=1</script><img src=x onerror="window.evil=1">` +
		"\u2028"
	r := newRun(evil, evil)
	h := r.result.Header
	h.Command, h.Versions, h.Control = evil, []string{evil}, evil
	op := r.op(10, 1, "worker-1", evil, 7, history.Write, history.Failed, evil)
	r.term(5, "<b>worker</b>", history.Lost, 7, evil)
	r.fault(5, 15, evil, "worker-1 "+evil)
	r.add(6, history.Event{Kind: history.Note, Process: evil, Text: evil})
	r.result.Problems = []check.Problem{
		{Invariant: evil, At: at(11), Process: evil, Op: op, Text: evil},
	}
	r.result.Doubts = []string{evil}
	p := open(t, save(t, r.events, r.result), 1280, 800)
	p.Click("#first")
	want(p, `document.querySelectorAll('img, script:not(#data):not(:last-of-type)').length`, 0)
	want(p, `window.evil === undefined`, true)
	p.WantText("#tip", "<img src=x")
	p.WantText("#problems", "</script>")
}

func TestEmptyHistory(t *testing.T) {
	r := check.Result{Verdict: check.Unknown, Doubts: []string{"the history is empty"}}
	p := open(t, save(t, nil, r), 1280, 800)
	p.WantText("#verdict", "?", "unknown")
	p.WantText("#scenario", "a run without a header")
	p.WantText("#empty", "nothing to draw")
	p.WantText("#doubts", "the history is empty")
	want(p, `document.querySelectorAll('.tile.good').length`, 0) // nothing was tested
	p.Press("n")
	p.Press("+")
}

func TestPageOfAnUnguardedRun(t *testing.T) {
	r, _, _ := invalid()
	r.result.Header.Guarded, r.result.Header.Control = false, ""
	p := open(t, save(t, r.events, r.result), 1280, 800)
	p.WantText(".chips", "guard OFF")
	p.WantText("#unguarded", "without a fence")
	want(p, `document.querySelectorAll('#control').length`, 0)
}

func TestHistoryWithoutHeader(t *testing.T) {
	r := valid()
	r.result.Header, r.result.Verdict = nil, check.Unknown
	p := open(t, save(t, r.events[1:], r.result), 1280, 800)
	p.WantText("#scenario", "a run without a header")
	want(p, `report.data.lanes.length`, 4)
	want(p, `report.data.from >= 0`, true)
	want(p, `document.querySelectorAll('#command').length`, 0)
}

func TestTwentyThousandOperations(t *testing.T) {
	r := newRun("long", "")
	for i := range 10 {
		r.leads(float64(i)*10_000, float64(i)*10_000+9900, fmt.Sprintf("worker-%d", 1+i%3),
			fence.Token(10+i), 9.5)
	}
	if r.ops < 20_000 {
		t.Fatalf("the history has %d operations, want 20000", r.ops)
	}
	start := time.Now()
	p := open(t, save(t, r.events, r.result), 1280, 800)
	want(p, `report.data.ops.length`, r.ops)
	want(p, `document.getElementById('picture').dataset.dense`, "true")
	// These bounds are wide: they only find a page that hangs.
	if took := time.Since(start); took > time.Minute {
		t.Errorf("browser and page took %s", took)
	}
	frame := eval[float64](p, `(() => {
		const t = performance.now();
		for (let i = 0; i < 20; i++) report.draw();
		return (performance.now() - t) / 20;
	})()`)
	t.Logf("%d operations: %s to start and load, %.1f ms for each frame", r.ops,
		time.Since(start).Round(time.Millisecond), frame)
	if frame > 1000 {
		t.Errorf("one frame takes %.0f ms", frame)
	}
}

func TestDarkMode(t *testing.T) {
	r, _, _ := invalid()
	p := open(t, save(t, r.events, r.result), 1280, 800)
	p.colours()
	page, lane := `getComputedStyle(document.body).backgroundColor`, `colour(4, 60).join()`
	lightPage, lightLane := eval[string](p, page), eval[string](p, lane)
	p.Dark()
	if eval[string](p, page) == lightPage || eval[string](p, lane) == lightLane {
		t.Errorf("dark and light are the same: page %s, lane %s", lightPage, lightLane)
	}
	p.screenshot("dark")
}

// screenshots is the path for pictures of the page; the picture for the README gets this very path.
var screenshots = flag.String("screenshot", os.Getenv("RINGFENCE_SCREENSHOT"),
	"save pictures of the page here (a .png)")

func (p *tab) screenshot(name string) {
	p.t.Helper()
	if *screenshots == "" {
		return
	}
	file := *screenshots
	if name != "" {
		file = strings.TrimSuffix(file, ".png") + "-" + name + ".png"
	}
	p.Screenshot(file)
}

// TestScreenshot takes pictures of a synthetic run. RINGFENCE_SCREENSHOT_OF names the report.html
// of a real run to take a picture of instead.
func TestScreenshot(t *testing.T) {
	if real := os.Getenv("RINGFENCE_SCREENSHOT_OF"); real != "" {
		open(t, real, 1280, 800).screenshot("")
		return
	}
	r, _, _ := invalid()
	p := open(t, save(t, r.events, r.result), 1280, 800)
	p.screenshot("invalid")
	p.Click("#first")
	p.screenshot("violation")
	v := valid()
	p = open(t, save(t, v.events, v.result), 1280, 800)
	p.screenshot("")
	p = open(t, save(t, r.events, r.result), 390, 844, chromedp.EmulateMobile)
	p.screenshot("phone")
}
