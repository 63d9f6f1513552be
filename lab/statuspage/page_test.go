package statuspage

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/ringfence/ringfence/internal/test/must"
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
	p.Wait(has("resources", "orders", "5 · 1", "app@", "(billing-1)"))
	p.Wait(has("sessions", "(billing-1)", "postgres orders", "5"))
	p.Wait(`document.getElementById('verdict').className === 'well'`)

	g.admitted("billing-2", "orders=9")
	p.Wait(has("resources", "orders", "9 · 1", "(billing-2)") + ` && ` +
		has("sessions", "(billing-2)"))
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
	p.Wait(has("resources", "orders", "9 · 1", "7 · 1", "stale", "3 in all"))
	p.Wait(`document.querySelectorAll('#lanes [data-resource="orders"] .term').length === 3`)
	p.Wait(`document.querySelectorAll('#lanes [data-resource="orders"] .refusal').length === 2`)
	p.Wait(
		`document.getElementById('parts').innerText.includes('postgres is well: 1 mark, 1 session')`,
	)
	p.Wait(`document.getElementById('parts').innerText.includes('redis is well: 1 mark, 1 session')`)
	p.Wait(`document.getElementById('verdict').innerText.includes('3 attempts refused lately')`)
}

func TestThePageSaysWhoLeadsNow(t *testing.T) {
	g := elected(t)
	term := g.lead("orders", "billing-1")
	g.lead("stock", "depot-1")
	p := g.open(1280, 900)
	p.Wait(has("resources", "orders", "billing-1", term.Token().String()+" · 1"))
	p.Wait(`document.getElementById('verdict').innerText === 'All well'`)
	g.resign(term)
	p.Wait(has("resources", "orders", "nobody, last billing-1"))
	p.Wait(
		`document.getElementById('verdict').innerText.includes('1 resource without a leader: orders')`,
	)
	// the first one
	browser.Want(p, `document.querySelector('#resources tbody tr').innerText.includes('orders')`, true)
	filter := func(text string) {
		browser.Want(p,
			fmt.Sprintf(
				`(f => { f.value = %q; f.oninput(); return true })(document.getElementById('filter'))`, text,
			), true)
	}
	filter("depot")
	p.Wait(`!` + has("resources", "orders") + ` && ` + has("resources", "stock"))
	filter("")
	g.lead("orders", "billing-2")
	p.Wait(has("resources", "orders", "billing-2") + ` && !` + has("resources", "nobody"))
	p.Wait(`document.getElementById('verdict').innerText === 'All well'`)
}

func TestThePageSaysWhatIsOut(t *testing.T) {
	g := elected(t)
	g.lead("orders", "billing-1")
	p := g.open(1280, 900)
	p.Wait(has("resources", "orders", "billing-1"))
	freeze := func(what string, pause, resume func() error, parts string) {
		t.Helper()
		must.Succeed(t, pause())
		p.Wait(fmt.Sprintf(`document.getElementById('verdict').innerText.includes(%q)`, what+" is out"))
		p.Wait(fmt.Sprintf(`document.getElementById('parts').innerText.includes(%q)`, parts))
		browser.Want(p, `document.getElementById('verdict').className`, "out")
		must.Succeed(t, resume())
		p.Wait(`document.getElementById('verdict').innerText === 'All well'`)
	}
	freeze("the coordinator", g.etcd.Pause, g.etcd.Resume, "redis is well, but admits nobody "+
		"without the coordinator")
	freeze("postgres", g.server.Pause, g.server.Resume, "postgres is out for")
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
	browser.Want(p, `document.querySelector('#lanes .term title').textContent.includes('<img')`, true)
}

func TestOfManyResourcesThePageShowsThoseThatChangedLast(t *testing.T) {
	g := start(t)
	var claims []string
	for i := range 60 {
		claims = append(claims, fmt.Sprintf("r_%d=1", i))
	}
	g.admitted("many", claims[:30]...) // one session claims 32 at most
	g.admitted("more", claims[30:]...)
	g.admitted("one", "orders=5")
	p := g.open(1280, 900)
	p.Wait(`document.getElementById('resources-note').textContent.startsWith('50 of 61')`)
	p.Wait(has("resources", "orders", "5"))
	browser.Want(p, `document.querySelectorAll('#resources tbody tr').length`, 50)
	browser.Want(p, `document.querySelectorAll('#lanes [data-resource]').length`, 12)
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
	// from the store: this process raised nothing
	p.Wait(has("resources", "orders", "5", "(billing-1)"))
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
	p.Wait(fmt.Sprintf("document.querySelectorAll('#refusals tbody tr').length === %d", most))
	nodes := browser.Eval[int](p, `document.querySelectorAll('*').length`)
	crowd(300)
	p.Wait(has("refusals", "several clients"))
	if now := browser.Eval[int](p, `document.querySelectorAll('*').length`); now > nodes+20 {
		t.Errorf("the page has grown from %d to %d elements", nodes, now)
	}
}
