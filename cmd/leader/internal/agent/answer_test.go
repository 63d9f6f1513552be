package agent

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/ringfence/ringfence/cmd/leader/internal/carrier"
	"github.com/ringfence/ringfence/cmd/leader/internal/stores"
	"github.com/ringfence/ringfence/internal/settings"
	"github.com/ringfence/ringfence/internal/test/must"
)

func TestHEADOfAStreamEnds(t *testing.T) {
	s := serve(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	w := httptest.NewRecorder()
	s.agent.Handler().ServeHTTP(w,
		httptest.NewRequestWithContext(ctx, "HEAD", "/v1/leaders/orders/events", nil))
	if w.Code != http.StatusOK || w.Body.Len() > 0 || ctx.Err() != nil {
		t.Errorf("%d, %q, %v", w.Code, w.Body, ctx.Err())
	}
}

// A program of another user gets no password of the agent's.
func TestThePasswordOfTheAgentsStoresIsForItsOwnUser(t *testing.T) {
	const own = `"stores":["postgres://app:own@guard/shop"]`
	for _, c := range []struct {
		user        int
		token, body string
		private     bool
	}{
		{os.Getuid(), "", "", false}, {os.Getuid() + 1, "", "", true}, {os.Getuid(), "t0ken", "", true},
		{os.Getuid() + 1, "", "," + own, false},
	} {
		a := &Agent{
			Holder: "test", Table: stores.All, URLs: settings.URLs{"postgres://app:s3cret@guard/shop"},
			User: c.user, Token: c.token,
			Carry: carrier.Setting{{Kind: "postgres", Listen: "127.0.0.1:0"}},
		}
		term, err := a.asked(httptest.NewRequest("POST", "/v1/terms",
			strings.NewReader(`{"resource":"orders"`+c.body+`}`)))
		if err != nil || len(term.routes) != 1 || term.routes[0].Private != c.private {
			t.Errorf("%+v: %+v, %v", c, term, err)
		}
	}
}

func TestTheListHasEachTermWithItsToken(t *testing.T) {
	s := serve(t)
	token := s.stands(`{"resource":"orders","holder":"one"}`).next().Token
	s.stands(`{"resource":"orders","holder":"two"}`).next()
	got := s.ask(t.Context(), "GET", "/v1/terms", "")
	defer got.Body.Close()
	var all struct{ Terms []Event }
	if err := json.NewDecoder(got.Body).Decode(&all); err != nil || len(all.Terms) != 2 {
		t.Fatalf("%+v, %v", all, err)
	}
	i := slices.IndexFunc(all.Terms, func(e Event) bool { return e.Holder == "one" })
	if one, two := all.Terms[i], all.Terms[1-i]; one.Event != Leading || one.Token != token ||
		two.Event != Waiting || two.Token != "" {
		t.Errorf("%+v", all.Terms)
	}
}

func TestBadRequestsAreAnswered(t *testing.T) {
	s := serve(t)
	for _, c := range []struct {
		method, path, body string
		code               int
		text               string
	}{
		{"POST", "/v1/terms", `{"resource":"Orders-1"}`, 400, "lower-case"},
		{"POST", "/v1/terms", `{"resource":"orders","tokn":1}`, 400, "unknown field"},
		{"POST", "/v1/terms", `{"resource":"orders"} {}`, 400, "something after"},
		{"POST", "/v1/terms", `{"resource":"orders","stores":["nostore://x/"]}`, 400, "there is no " +
			"store nostore://"},
		{"POST", "/v1/terms",
			`{"resource":"orders","stores":["postgres://app@h/d?password_command=env"]}`, 400, "no files " +
				"or programs"},
		{"POST", "/v1/terms",
			`{"resource":"orders","stores":["postgres://app@h/d?password_file=/etc/shadow"]}`, 400, "no " +
				"files or programs"},
		{"POST", "/v1/terms",
			`{"resource":"orders","stores":["postgres://app@/d?host=/var/run/postgresql"]}`, 400, "name a " +
				"host"},
		{"POST", "/v1/terms", `{"resource":"orders","stores":["redis://h?password_file=/etc/shadow"]}`,
			400, `not \"password_file\"`},
		{"POST", "/v1/terms", `{"resource":"orders","holder":"` + strings.Repeat("x", maxBody) + `"}`,
			413, "too large"},
		{"DELETE", "/v1/terms/none", "", 404, "no such term"},
		{"GET", "/v1/leaders/Orders", "", 400, "lower-case"},
	} {
		got := s.ask(t.Context(), c.method, c.path, c.body)
		text, _ := io.ReadAll(got.Body)
		got.Body.Close()
		if got.StatusCode != c.code || !strings.Contains(string(text), c.text) || !json.Valid(text) {
			t.Errorf("%s %s %.60s: %s: %s", c.method, c.path, c.body, got.Status, text)
		}
	}
}

func TestWhoLeadsIsTold(t *testing.T) {
	s := serve(t)
	watch := s.ask(t.Context(), "GET", "/v1/leaders/orders/events", "")
	defer watch.Body.Close()
	lines := bufio.NewScanner(watch.Body)
	next := func() (l Leader) {
		t.Helper()
		if !lines.Scan() || json.Unmarshal(lines.Bytes(), &l) != nil {
			t.Fatalf("%q, %v", lines.Text(), lines.Err())
		}
		return l
	}
	if l := next(); l != (Leader{Resource: "orders"}) {
		t.Errorf("%+v", l)
	}
	token := s.stands(`{"resource":"orders","holder":"one"}`).next().Token
	for l := next(); l.Token != token || !l.Ready; l = next() {
		if l.Holder != "one" && l.Holder != "" {
			t.Errorf("%+v", l)
		}
	}
	got := s.ask(t.Context(), "GET", "/v1/leaders/orders", "")
	defer got.Body.Close()
	var l Leader
	if err := json.NewDecoder(got.Body).Decode(&l); err != nil ||
		l != (Leader{"orders", "one", token, true, 0}) {
		t.Errorf("%+v, %v", l, err)
	}
}

func TestServerSentEventsForWhoAcceptsThem(t *testing.T) {
	s := serve(t)
	r, err := http.NewRequestWithContext(t.Context(), "POST", "http://agent/v1/terms",
		strings.NewReader(`{"resource":"orders"}`))
	must.Succeed(t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "text/event-stream")
	got, err := s.client.Do(r)
	must.Succeed(t, err)
	defer got.Body.Close()
	lines := bufio.NewScanner(got.Body)
	if !lines.Scan() || lines.Text() != "event: leading" || !lines.Scan() ||
		!strings.HasPrefix(lines.Text(), `data: {"event":"leading"`) {
		t.Errorf("%q", lines.Text())
	}
}

func TestTheDescriptionNamesEachPathAndField(t *testing.T) {
	var d struct {
		Paths      map[string]map[string]any
		Components struct {
			Schemas map[string]struct{ Properties map[string]any }
		}
	}
	must.Succeed(t, yaml.Unmarshal(openAPI, &d))
	for _, path := range []string{"/v1/terms", "/v1/terms/{id}", "/v1/leaders/{resource}",
		"/v1/leaders/{resource}/events"} {
		if d.Paths[path] == nil {
			t.Errorf("no %s", path)
		}
	}
	for name, of := range map[string]any{"Request": Request{}, "Event": Event{}, "Leader": Leader{}} {
		var fields []string
		for f := range reflect.TypeOf(of).Fields() {
			tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			fields = append(fields, tag)
		}
		for _, f := range fields {
			if d.Components.Schemas[name].Properties[f] == nil {
				t.Errorf("%s has no %s", name, f)
			}
		}
		if len(fields) != len(d.Components.Schemas[name].Properties) {
			t.Errorf("%s has fields that are not sent", name)
		}
	}
}
