package statuspage

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/lab/browser"
)

// terms has leaders come and go, so that a picture has something to show. It returns one that
// leads.
func (g *guard) terms() *fence.Term {
	g.t.Helper()
	var orders, stock *fence.Term
	for i := range 5 {
		if orders != nil {
			g.resign(orders)
		}
		orders = g.lead("orders", fmt.Sprintf("billing-%d", i%3+1))
		if i%2 == 0 {
			if stock != nil {
				g.resign(stock)
			}
			stock = g.lead("stock", fmt.Sprintf("depot-%d", i/2%2+1))
		}
		time.Sleep(time.Duration(2+i%3) * time.Second)
	}
	return g.lead("invoices", "billing-2")
}

const drawn = `document.getElementById('parts').innerText.includes('redis is well: 0 marks')`

// TestScreenshot saves the picture of README.md where STATUS_SCREENSHOT says.
func TestScreenshot(t *testing.T) {
	file := os.Getenv("STATUS_SCREENSHOT")
	if file == "" {
		t.Skip("STATUS_SCREENSHOT names no file")
	}
	g := elected(t)
	g.terms()
	g.refused("billing-1", "orders=1")
	g.refused("billing-1", "orders=1")
	g.refused("psql")
	p := g.open(1100, 820)
	p.Wait(has("resources", "orders", "billing-2") + ` && ` + has("sessions", "depot-1") + ` && ` +
		drawn)
	p.Screenshot(file)
}

// TestStates saves pictures of what somebody on call may see, in the folder that STATUS_STATES
// names.
func TestStates(t *testing.T) {
	folder := os.Getenv("STATUS_STATES")
	if folder == "" {
		t.Skip("STATUS_STATES names no folder")
	}
	g := elected(t)
	invoices := g.terms()
	p := g.open(1280, 900)
	shoot := func(name string) {
		p.Screenshot(filepath.Join(folder, name+"-desktop.png"))
		p.Scheme("dark")
		p.Screenshot(filepath.Join(folder, name+"-dark.png"))
		p.Scheme("light")
		p.Do(chromedp.EmulateViewport(390, 844, chromedp.EmulateMobile))
		p.Settle()
		p.Screenshot(filepath.Join(folder, name+"-phone.png"))
		p.Do(chromedp.EmulateViewport(1280, 900))
	}
	verdict := func(text string) {
		p.Wait(fmt.Sprintf(`document.getElementById('verdict').innerText.includes(%q)`, text))
	}
	frozen := func(name, text string, pause, resume func() error) {
		must.Succeed(t, pause())
		verdict(text)
		shoot(name)
		must.Succeed(t, resume())
		verdict("All well")
	}
	p.Wait(has("resources", "orders", "billing-2") + ` && ` + has("sessions", "depot-1") + ` && ` +
		drawn)
	browser.Want(p, `document.getElementById('verdict').innerText`, "All well")
	shoot("well")
	frozen("coordinator", "the coordinator is out", g.etcd.Pause, g.etcd.Resume)
	frozen("store", "postgres is out", g.server.Pause, g.server.Resume)
	g.resign(invoices)
	p.Wait(has("resources", "invoices", "nobody"))
	shoot("no-leader")
	g.lead("invoices", "billing-3")
	for range 12 {
		g.refused("billing-1", "orders=1")
	}
	g.refused("depot-1", "stock=1")
	g.refused("psql")
	p.Wait(has("resources", "invoices", "billing-3") + ` && ` + has("refusals", "psql"))
	shoot("refusals")
}
