package statuspage

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/ringfence/ringfence/lab/browser"
)

// has is true if a row of a table holds all of these texts.
func has(table string, texts ...string) string {
	return fmt.Sprintf(`[...document.querySelectorAll('#%s tbody tr')].some((row) =>
		%q.split('|').every((text) => row.innerText.includes(text)))`, table, strings.Join(texts, "|"))
}

func TestThePageFollowsLeadership(t *testing.T) {
	g := start(t)
	first := g.admitted("billing-1", "orders=5")
	p := g.open(1280, 900)
	p.Wait(has("resources", "postgres orders", "5", "app@", "(billing-1)"))
	p.Wait(has("sessions", "(billing-1)", "postgres orders", "5"))

	g.admitted("billing-2", "orders=9")
	p.Wait(has("resources", "orders", "9", "(billing-2)") + ` && ` + has("sessions", "(billing-2)"))
	p.Wait(`!` + has("sessions", "(billing-1)"))
	if err := first.Ping(t.Context()); err == nil {
		t.Error("the older session is still open")
	}

	g.refused("billing-1", "orders=5")
	g.refused("billing-1", "orders=5")
	p.Wait(has("refusals", "(billing-1)", "orders", "5", "9", "stale", "2"))
	if answer := g.claim("orders", 7); answer != "+OK\r\n" {
		t.Fatal(answer)
	}
	if answer := g.claim("orders", 6); !strings.HasPrefix(answer, "-STALETOKEN") {
		t.Fatal(answer)
	}
	p.Wait(has("refusals", "redis orders", "6", "7", "stale"))
	p.Wait(`document.querySelectorAll('#stairs [data-resource="postgres orders"] circle').length === 2`)
	p.Wait(`document.querySelectorAll('#stairs [data-resource="redis orders"] circle').length === 1`)
	p.Wait(`document.getElementById('stores').innerText.includes(
		'postgres 1 resource, 1 session of all guards')`)
	p.Wait(`document.getElementById('stores').innerText.includes('redis 1 resource, 1 session')`)
}

// Names come from clients.
func TestNamesAreTextAndNotMarkup(t *testing.T) {
	g := start(t)
	const hostile = `<img src=x onerror="document.title='hacked'">`
	g.admitted(hostile, "orders=5")
	g.refused(hostile, "orders=4")
	p := g.open(1280, 900)
	for _, table := range []string{"resources", "sessions", "refusals"} {
		p.Wait(has(table, hostile))
	}
	browser.Want(p, `document.querySelectorAll('img').length`, 0)
	browser.Want(p, `document.title.includes('hacked')`, false)
	browser.Want(p, `document.querySelector('#stairs title').textContent.includes('<img')`, true)
}

func TestOfManyResourcesThePageShowsThoseThatChangedLast(t *testing.T) {
	g := start(t)
	var claims []string
	for i := range 60 {
		claims = append(claims, fmt.Sprintf("r_%d=1", i))
	}
	g.admitted("many", claims...)
	g.admitted("one", "orders=5")
	p := g.open(1280, 900)
	p.Wait(`document.getElementById('resources-note').textContent ===
		'the 50 that changed last, of 61'`)
	p.Wait(has("resources", "orders", "5"))
	browser.Want(p, `document.querySelectorAll('#resources tbody tr').length`, 50)
	browser.Want(p, `document.querySelectorAll('#stairs [data-resource]').length`, 8)
}

func TestAPhoneShowsEverythingWithoutScrollingSideways(t *testing.T) {
	g := start(t)
	g.admitted("billing-1", "orders=4294967297")
	g.refused(strings.Repeat("a_very_long_name_", 4), "orders=5")
	p := g.open(390, 844, chromedp.EmulateMobile)
	p.Wait(has("sessions", "(billing-1)") + ` && ` + has("refusals", "a_very_long_name"))
	browser.Want(p, `document.documentElement.scrollWidth <= innerWidth`, true)
	browser.Want(p, `getComputedStyle(document.querySelector('#sessions td'), '::before').content`,
		`"Client"`)
	p.Dark()
	browser.Want(p, `getComputedStyle(document.body).backgroundColor`, "rgb(14, 17, 22)")
}

func TestThePageSaysThatTheGuardIsGoneAndConnectsAgain(t *testing.T) {
	g := start(t)
	g.admitted("billing-1", "orders=5")
	p := g.open(1280, 900)
	p.Wait(has("resources", "orders", "5"))
	g.stop() // fails the test if the open stream keeps the guard from stopping in order
	p.Wait(`document.querySelector('#link.lost')`)
	p.WantText("#link", "connection lost")
	browser.Want(p, has("resources", "orders", "5"), true)
	g.serve()
	p.Wait(`document.querySelector('#link.live')`)
	p.Wait(has("resources", "orders", "5", "(billing-1)")) // from the store: this process raised nothing
}

// A page stays open for days.
func TestThePageDoesNotGrow(t *testing.T) {
	g := start(t)
	g.admitted("leader", "orders=1000")
	p := g.open(1280, 900)
	const most = 100 // rows, as many as the audit remembers kinds of refusals
	crowd := func(from int) {
		for i := range most {
			g.refused("old", fmt.Sprintf("orders=%d", from+i))
		}
	}
	crowd(1)
	p.Wait(has("refusals", fmt.Sprint(most)))
	nodes := browser.Eval[int](p, `document.querySelectorAll('*').length`)
	browser.Want(p, `document.querySelectorAll('#refusals tbody tr').length`, most)
	crowd(300)
	p.Wait(has("refusals", "several clients"))
	if now := browser.Eval[int](p, `document.querySelectorAll('*').length`); now > nodes+20 {
		t.Errorf("the page has grown from %d to %d elements", nodes, now)
	}
}

// TestScreenshot saves the picture of README.md where STATUS_SCREENSHOT says.
func TestScreenshot(t *testing.T) {
	file := os.Getenv("STATUS_SCREENSHOT")
	if file == "" {
		t.Skip("STATUS_SCREENSHOT names no file")
	}
	g := start(t)
	for term := range 6 {
		g.admitted(fmt.Sprintf("billing-%d", term%3+1), fmt.Sprintf("orders=%d", 41+3*term))
		g.admitted(fmt.Sprintf("stock-%d", term%2+1), fmt.Sprintf("stock=%d", 12+term/2*4))
		time.Sleep(time.Duration(1+term%3) * time.Second) // so that the picture has steps
	}
	g.refused("billing-1", "orders=41")
	g.refused("billing-1", "orders=41")
	g.refused("stock-2", "stock=12")
	g.refused("psql")
	if answer := g.claim("cache", 7); answer != "+OK\r\n" {
		t.Fatal(answer)
	}
	p := g.open(1100, 760)
	p.Wait(has("resources", "orders", "56") + ` && ` + has("resources", "cache", "7"))
	p.Wait(has("sessions", "(stock-2)") + ` && document.querySelectorAll('#sessions tbody tr').length === 4`)
	p.Wait(`!document.getElementById('stores').innerText.includes('…')`)
	p.Click(`[data-span="0"]`)
	p.Screenshot(file)
}
