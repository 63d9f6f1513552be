package jobserver

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/test/must"
)

// list asks for the jobs of a group with a request that is changed first, and returns the answer
// and its text.
func list(t *testing.T, url string, change func(*http.Request)) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", url+"/v1/groups/nightly/jobs", nil)
	must.Succeed(t, err)
	change(r)
	got, err := http.DefaultClient.Do(r)
	must.Succeed(t, err)
	defer got.Body.Close()
	text, _ := io.ReadAll(got.Body)
	return got, string(text)
}

func TestOnlyTheTokenOpensTheAPI(t *testing.T) {
	url, _ := serve(t, "s3cret")
	for header, want := range map[string]int{
		"": http.StatusUnauthorized, "Bearer wrong": http.StatusUnauthorized,
		"Bearer s3cret": http.StatusOK,
	} {
		got, text := list(t, url, func(r *http.Request) { r.Header.Set("Authorization", header) })
		if got.StatusCode != want || strings.Contains(text, "s3cret") {
			t.Errorf("%q: %s %s", header, got.Status, text)
		}
	}
}

// Without a token the server is for this machine. A page of another site whose name leads here is
// not stopped by its browser.
func TestWithoutATokenOnlyNamesOfThisMachineAreAnswered(t *testing.T) {
	url, _ := serve(t, "")
	for host, want := range map[string]int{
		"localhost:8480": http.StatusOK, "[::1]:80": http.StatusOK, "127.0.0.1": http.StatusOK,
		"evil.example:8480": http.StatusForbidden, "localhost.evil.example": http.StatusForbidden,
	} {
		got, _ := list(t, url, func(r *http.Request) { r.Host = host })
		if got.StatusCode != want {
			t.Errorf("%s: %s", host, got.Status)
		}
	}
}

// A browser sends such a request for any page, and only keeps the answer from it.
func TestWithoutATokenPagesOfOtherSitesAreRefused(t *testing.T) {
	for token, refused := range map[string]int{"": http.StatusForbidden, "s3cret": http.StatusOK} {
		url, _ := serve(t, token)
		for site, want := range map[string]int{
			"": http.StatusOK, "same-origin": http.StatusOK, "none": http.StatusOK, "cross-site": refused,
		} {
			got, _ := list(t, url, func(r *http.Request) {
				r.Header.Set("Sec-Fetch-Site", site)
				r.Header.Set("Authorization", "Bearer "+token)
			})
			if got.StatusCode != want {
				t.Errorf("token %q, %q: %s", token, site, got.Status)
			}
		}
	}
}

func TestThePageNeedsNoTokenAndSaysNothing(t *testing.T) {
	url, _ := serve(t, "s3cret")
	for path, want := range map[string]int{
		"/": http.StatusOK, "/page.js": http.StatusOK, "/live.js": http.StatusOK,
		"/page.css":     http.StatusOK,
		"/openapi.yaml": http.StatusOK, "/server.go": http.StatusNotFound,
		"/files/page.js": http.StatusNotFound,
		"/v1/groups":     http.StatusUnauthorized, "/v1/groups/nightly/events": http.StatusUnauthorized,
		"/v1/nothing": http.StatusUnauthorized,
	} {
		got, err := http.Get(url + path)
		must.Succeed(t, err)
		got.Body.Close()
		if got.StatusCode != want || want == http.StatusOK &&
			!strings.HasPrefix(got.Header.Get("Content-Security-Policy"), "default-src 'none';") {
			t.Errorf("%s: %s %v", path, got.Status, got.Header)
		}
	}
}
