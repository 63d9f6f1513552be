package statuspage

import (
	"net/http"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/lab/browser"
)

// A browser sends the token that it was given with the page, and with its stream of events.
func TestABrowserWithTheTokenShowsThePageAndItsEvents(t *testing.T) {
	g := start(t)
	g.stop()
	g.env = append(g.env, "GUARD_HTTP_TOKEN=s3cret")
	g.serve()
	g.admitted("app", "orders=5")
	for _, path := range []string{"/", "/events", "/metrics"} {
		answer, err := http.Get("http://" + g.http + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s without the token: %s", path, answer.Status)
		}
	}
	own := "http://" + g.http + "/"
	p := browser.Open(t, "http://operator:s3cret@"+g.http+"/", func(address string) bool {
		return strings.HasPrefix(address, own) ||
			strings.HasPrefix(address, "http://operator:s3cret@"+g.http+"/")
	}, 1280, 800)
	p.Wait(`document.body.innerText.includes('orders')`)
}
