package agent

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/ringfence/ringfence/cmd/internal/webpage"
	"github.com/ringfence/ringfence/cmd/leader/internal/carrier"
	"github.com/ringfence/ringfence/cmd/leader/internal/stores"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/fence/fencetest"
	"github.com/ringfence/ringfence/internal/network/peeruser"
	"github.com/ringfence/ringfence/internal/settings"
	"github.com/ringfence/ringfence/internal/test/must"
)

// raiser is a store that only says whether it was asked.
type raiser func(context.Context, fence.Claim) error

// Raise implements fence.Raiser.
func (r raiser) Raise(ctx context.Context, c fence.Claim) error { return r(ctx, c) }

// served is an agent on a Unix socket, and its coordinator.
type served struct {
	t      *testing.T
	agent  *Agent
	path   string
	client http.Client
	other  elector.Coordinator // of another process
	stop   func()
}

func serve(t *testing.T, all ...fence.Raiser) *served {
	t.Helper()
	m := fencetest.NewMemory(10 * time.Second)
	c, other := m.Open(), m.Open()
	log := slog.New(slog.DiscardHandler)
	path := filepath.Join(t.TempDir(), "agent.sock")
	l, err := Listen(t.Context(), "unix:"+path, nil, log)
	must.Succeed(t, err)
	s := &served{t: t, path: path, other: other, agent: &Agent{
		Coordinator: c, Holder: "test", Stores: all, Table: stores.All, Raise: time.Minute,
		Session: 10 * time.Second, Log: log,
	}}
	s.client.Transport = &http.Transport{DialContext: func(
		ctx context.Context, _, _ string,
	) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	stopped := make(chan error, 1)
	go func() {
		stopped <- webpage.Server{
			Handler: s.agent.Handler(), Answer: time.Minute, Grace: 10 * time.Second,
			Connections: MaxStreams, Keeps: true, Connected: Connected,
		}.Serve(ctx, l)
	}()
	s.stop = sync.OnceFunc(func() {
		s.agent.Close()
		cancel()
		must.Report(t, <-stopped)
	})
	t.Cleanup(func() {
		s.stop()
		s.client.CloseIdleConnections()
		_, _ = c.Close(), other.Close()
	})
	return s
}

// ask sends a request. The caller closes the body.
func (s *served) ask(ctx context.Context, method, path, body string) *http.Response {
	s.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, "http://agent"+path, strings.NewReader(body))
	must.Succeed(s.t, err)
	r.Header.Set("Content-Type", "application/json")
	got, err := s.client.Do(r)
	must.Succeed(s.t, err)
	return got
}

// stream is a client's.
type reading struct {
	t     *testing.T
	lines *bufio.Scanner
	close func()
}

// stands stands for election.
func (s *served) stands(body string) *reading {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	got := s.ask(ctx, "POST", "/v1/terms", body)
	r := &reading{s.t, bufio.NewScanner(got.Body), func() { cancel(); got.Body.Close() }}
	s.t.Cleanup(r.close)
	if got.StatusCode != http.StatusOK || got.Header.Get("Content-Type") != "application/x-ndjson" {
		s.t.Fatalf("%s: %v", got.Status, got.Header)
	}
	return r
}

// next returns the next event.
func (r *reading) next() Event {
	r.t.Helper()
	var e Event
	if !r.lines.Scan() {
		r.t.Fatalf("the stream has ended: %v", r.lines.Err())
	}
	must.Succeed(r.t, json.Unmarshal(r.lines.Bytes(), &e))
	return e
}

// until returns the next event of this kind.
func (r *reading) until(what What) Event {
	r.t.Helper()
	for {
		switch e := r.next(); e.Event {
		case what:
			return e
		case Lost:
			r.t.Fatalf("lost before %s: %+v", what, e)
		}
	}
}

// ends checks that the term is lost by this cause, and that the stream ends then.
func (r *reading) ends(why Cause) {
	r.t.Helper()
	if e := r.next(); e.Event != Lost || e.Cause != why ||
		e.Final != (why == Refused || why == Resigned) || e.Error == "" {
		r.t.Errorf("got %+v, want the term lost: %s", e, why)
	}
	if r.lines.Scan() || r.lines.Err() != nil {
		r.t.Errorf("after the end: %q, %v", r.lines.Text(), r.lines.Err())
	}
}

// led waits until a holder leads, or nobody.
func (s *served) led(holder string) {
	s.t.Helper()
	stop := errors.New("seen")
	err := s.other.Watch(s.t.Context(), "orders", func(all []elector.Candidate) error {
		if len(all) == 0 && holder == "" || len(all) > 0 && all[0].Holder == holder {
			return stop
		}
		return nil
	})
	if err != stop {
		s.t.Fatal(err)
	}
}

func TestTheStreamIsTheTerm(t *testing.T) {
	var raised []fence.Claim
	s := serve(t, raiser(func(_ context.Context, c fence.Claim) error {
		raised = append(raised, c)
		return nil
	}))
	r := s.stands(`{"resource":"orders","holder":"one"}`)
	e := r.next()
	if e.Event != Leading || e.Resource != "orders" || e.Holder != "one" || e.ID == "" ||
		e.Left <= 0 || e.Until.IsZero() {
		t.Errorf("%+v", e)
	}
	if len(raised) != 1 || raised[0].Token.String() != e.Token || raised[0].Issuer != e.Issuer {
		t.Errorf("told of the term before its mark was raised: %v, %+v", raised, e)
	}
	c := raised[0]
	want := Carry{
		PGOPTIONS: "-c fence.orders=" + e.Token, Fence: "FENCE orders " + e.Token,
		ClientName: "fence.orders." + e.Token,
		Pass:       strings.Join([]string{"orders", e.Token, string(e.Issuer), c.Candidate}, " "),
	}
	if !reflect.DeepEqual(*e.Carry, want) {
		t.Errorf("got %+v, want %+v", *e.Carry, want)
	}
	s.led("one")
	r.close()
	s.led("") // resigned
}

func TestWhoWaitsIsToldForWhom(t *testing.T) {
	for _, name := range []string{"two", "one"} { // two programs may have one name
		s := serve(t)
		first := s.stands(`{"resource":"orders","holder":"one"}`)
		first.next()
		second := s.stands(`{"resource":"orders","holder":"` + name + `"}`)
		e := second.until(Waiting)
		for e.Place == 0 { // not known yet
			e = second.until(Waiting)
		}
		if e.Place != 1 || e.Leader != "one" {
			t.Errorf("%+v", e)
		}
		first.close()
		if e := second.until(Leading); e.Holder != name {
			t.Errorf("%+v", e)
		}
	}
}

func TestATermEnds(t *testing.T) {
	for why, end := range map[Cause]func(s *served, e Event){
		Deposed: func(s *served, e Event) {
			token, _ := fence.ParseToken(e.Token)
			if _, err := s.other.Depose(s.t.Context(), "orders", token); err != nil {
				s.t.Error(err)
			}
		},
		Resigned: func(s *served, e Event) {
			s.ask(s.t.Context(), "DELETE", "/v1/terms/"+e.ID, "").Body.Close()
		},
		Stopped: func(s *served, _ Event) { go s.stop() },
	} {
		t.Run(string(why), func(t *testing.T) {
			s := serve(t)
			r := s.stands(`{"resource":"orders"}`)
			e := r.next()
			if !strings.HasPrefix(e.Holder, "test/") {
				t.Errorf("holder %q", e.Holder)
			}
			end(s, e)
			r.ends(why)
			s.led("")
		})
	}
}

func TestAStoreThatRefusesEndsTheTermBeforeItBegins(t *testing.T) {
	stale := &fence.Refusal{Reason: fence.ErrStale, Message: "stale"}
	for _, c := range []struct {
		err error
		why Cause
	}{
		{stale, Superseded}, {io.EOF, Failed}, {&fence.Refusal{
			Reason: fence.ErrOtherIssuer, Message: "another",
		}, Refused},
		{&fence.Refusal{
			Reason: fence.ErrUnrevoked, Message: "it goes on",
		}, Failed}, {carrier.ErrNoGuard, Refused},
	} {
		s := serve(t, raiser(func(context.Context, fence.Claim) error { return c.err }))
		s.stands(`{"resource":"orders"}`).ends(c.why)
		s.led("")
	}
}

// elected is a coordinator with a campaign of the test's.
type elected struct {
	elector.Coordinator
	campaign func(fence.Resource) (*fence.Term, error)
}

// Campaign implements fence.Elector.
func (e elected) Campaign(_ context.Context, r fence.Resource, _ string) (*fence.Term, error) {
	return e.campaign(r)
}

func TestACoordinatorThatRefusesNeedsAnOperator(t *testing.T) {
	s := serve(t)
	s.agent.Coordinator = elected{s.agent.Coordinator, func(fence.Resource) (*fence.Term, error) {
		return nil, io.EOF
	}}
	s.stands(`{"resource":"orders"}`).ends(Refused)
}

// hanging is a term whose resignation waits.
type hanging struct {
	t    *testing.T
	goOn chan struct{}
}

// Acknowledge implements elector.Backing.
func (hanging) Acknowledge(context.Context) error { return nil }

// Release implements elector.Backing.
func (h hanging) Release(context.Context) error {
	select {
	case <-h.goOn:
	case <-time.After(30 * time.Second):
		h.t.Error("resigns before the client is told")
	}
	return nil
}

func TestAClientIsToldOfTheEndBeforeTheAgentResigns(t *testing.T) {
	t.Parallel()
	s, h := serve(t), hanging{t, make(chan struct{})}
	s.agent.Coordinator = elected{s.agent.Coordinator, func(r fence.Resource) (*fence.Term, error) {
		term, _ := elector.NewTerm(fence.Claim{Resource: r, Token: 1}, time.Now(), time.Hour, h)
		return term, nil
	}}
	r := s.stands(`{"resource":"orders"}`)
	s.ask(t.Context(), "DELETE", "/v1/terms/"+r.next().ID, "").Body.Close()
	if e := r.next(); e.Event != Lost || e.Cause != Resigned {
		t.Errorf("%+v", e)
	}
	close(h.goOn)
	if r.lines.Scan() || r.lines.Err() != nil {
		t.Errorf("after the end: %q, %v", r.lines.Text(), r.lines.Err())
	}
}

func TestAProgramThatDoesNotReadLosesItsTerm(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.agent.Session = 60 * time.Millisecond // an event every third of it
	c := s.dials()
	s.led("one")
	s.led("")
	all, _ := io.ReadAll(c)
	if n := strings.Count(string(all), `"event":`); n < 2 || n > 30 {
		t.Errorf("lost after %d events that nobody has read", n)
	}
}

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

func TestAnAgentTakesTheSocketOfOneThatIsGone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.sock")
	log := slog.New(slog.DiscardHandler)
	first, err := Listen(t.Context(), "unix:"+path, nil, log)
	must.Succeed(t, err)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if _, err := Listen(t.Context(), "unix:"+path, nil, log); err == nil ||
		!strings.Contains(err.Error(), "a running process listens") {
		t.Errorf("a second agent: %v", err)
	}
	// as after kill -9
	first.Listener.(peeruser.Listener).Listener.(*net.UnixListener).SetUnlinkOnClose(false)
	_ = first.Close()
	second, err := Listen(t.Context(), "unix:"+path, nil, log)
	must.Succeed(t, err)
	_ = second.Close()
	must.Succeed(t, os.WriteFile(path, nil, 0o600))
	if _, err := Listen(t.Context(), "unix:"+path, nil, log); err == nil ||
		!strings.Contains(err.Error(), "is not a socket") {
		t.Errorf("a file: %v", err)
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
