package jobserver

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/fence/fencetest"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/jobs"
	"github.com/ringfence/ringfence/jobs/job"
	"github.com/ringfence/ringfence/jobs/queueview"
	"github.com/ringfence/ringfence/jobs/schedule"
)

// serve starts the API on a coordinator in memory, with a worker that echoes.
func serve(t *testing.T, token string) (url string, worker func(context.Context) error) {
	t.Helper()
	m := fencetest.NewMemory(10 * time.Second)
	c := m.Open()
	ctx, cancel := context.WithCancel(t.Context())
	s := &Server{
		Coordinator: c, Token: token, Patience: 30 * time.Second, Log: slog.New(slog.DiscardHandler),
	}
	h := httptest.NewServer(s.Handler(ctx))
	t.Cleanup(func() { cancel(); h.Close(); c.Close() })
	q, err := jobs.New(c, "nightly")
	must.Succeed(t, err)
	return h.URL, jobs.Worker{Queue: q, Name: "w", Handlers: map[string]jobs.Handler{
		"echo": func(_ context.Context, r *jobs.Run) (any, error) { return r.Spec.Payload, nil },
		"slow": func(ctx context.Context, r *jobs.Run) (any, error) {
			r.Show(func() any { return "so far" })
			<-ctx.Done()
			return "in the end", context.Cause(ctx)
		},
	}}.Run
}

// begin lets a worker work until the test ends.
func begin(t *testing.T, work func(context.Context) error) {
	ctx, cancel := context.WithCancel(t.Context())
	var working sync.WaitGroup
	working.Go(func() { _ = work(ctx) })
	t.Cleanup(func() { cancel(); working.Wait() })
}

// ask sends a request, and returns the code and the answer.
func ask(t *testing.T, method, url, body string) (int, map[string]any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	must.Succeed(t, err)
	r.Header.Set("Content-Type", "application/json")
	got, err := http.DefaultClient.Do(r)
	must.Succeed(t, err)
	defer got.Body.Close()
	var answer map[string]any
	if err := json.NewDecoder(got.Body).Decode(&answer); err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	return got.StatusCode, answer
}

func TestAJobIsHandedInAndFollowed(t *testing.T) {
	url, work := serve(t, "")
	all := url + "/v1/groups/nightly/jobs"
	code, got := ask(t, "POST", all, `{"kind":"echo","payload":{"n":1},"unique":"k"}`)
	id, _ := got["id"].(string)
	if code != http.StatusCreated || id == "" {
		t.Fatal(code, got)
	}
	if _, again := ask(t, "POST", all, `{"kind":"echo","unique":"k"}`); again["id"] != id {
		t.Errorf("the same key: %v", again)
	}
	if code, got := ask(t, "GET", all+"/"+id, ""); code != http.StatusOK || got["state"] != "waiting" {
		t.Error(code, got)
	}
	if code, got := ask(t, "GET", all, ""); code != http.StatusOK || len(got["jobs"].([]any)) != 1 {
		t.Error(code, got)
	}
	if code, got := ask(t, "POST", all+"/"+id+"/retry", "{}"); code != http.StatusConflict {
		t.Error(code, got)
	}

	begin(t, work)
	stream, err := http.Get(all + "/" + id + "/events")
	must.Succeed(t, err)
	defer stream.Body.Close()
	var last map[string]any
	for lines := bufio.NewScanner(stream.Body); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			must.Succeed(t, json.Unmarshal([]byte(text), &last))
		}
	}
	if last["state"] != "done" || !reflect.DeepEqual(last["result"], map[string]any{"n": 1.0}) {
		t.Errorf("the last event is %v", last)
	}
	if _, ok := last["token"].(string); !ok {
		t.Errorf("the token is %T, no string", last["token"])
	}
	if code, got := ask(t, "GET", url+"/v1/groups/nightly/workers", ""); code != http.StatusOK ||
		len(got["workers"].([]any)) != 1 {
		t.Error(code, got)
	}
	if code, got := ask(t, "POST", all+"/"+id+"/cancel", "{}"); code != http.StatusConflict {
		t.Error(code, got)
	}
	if code, got := ask(t, "GET", all+"/"+id+"/spec", ""); code != http.StatusOK ||
		got["unique"] != "k" {
		t.Error(code, got)
	}
}

// overviews reads a group's stream until one is as wanted.
func overviews(t *testing.T, url string, wanted func(State) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "GET", url+"/v1/groups/nightly/events", nil)
	must.Succeed(t, err)
	stream, err := http.DefaultClient.Do(r)
	must.Succeed(t, err)
	defer stream.Body.Close()
	var last State
	for lines := bufio.NewScanner(stream.Body); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			last = State{}
			must.Succeed(t, json.Unmarshal([]byte(text), &last))
			if wanted(last) {
				return
			}
		}
	}
	t.Errorf("the last overview is %+v", last)
}

func TestAGroupIsFollowed(t *testing.T) {
	url, work := serve(t, "")
	_, got := ask(t, "POST", url+"/v1/groups/nightly/jobs", `{"kind":"echo","payload":"`+
		strings.Repeat("x", 1000)+`"}`)
	overviews(t, url, func(s State) bool {
		return s.Counts[job.Waiting] == 1 && len(s.Workers) == 0 && len(s.Waiting) == 1
	})
	begin(t, work)
	overviews(t, url, func(s State) bool {
		return s.Counts[job.Done] == 1 && len(s.Workers) == 1 && len(s.Ended) == 1 &&
			string(s.Ended[0].ID) == got["id"] && s.Ended[0].Result == nil // it may be long
	})
}

func TestJobsAreListedInPages(t *testing.T) {
	url, work := serve(t, "")
	all := url + "/v1/groups/nightly/jobs"
	var want []string
	for range 5 {
		_, got := ask(t, "POST", all, `{"kind":"echo","payload":1}`)
		want = append(want, got["id"].(string))
	}
	ask(t, "POST", all, `{"kind":"other"}`)
	begin(t, work)
	overviews(t, url, func(s State) bool { return s.Counts[job.Done] == 5 })
	slices.Sort(want)
	var ids []string
	for query := "?state=done&kind=echo&limit=2"; query != ""; {
		_, got := ask(t, "GET", all+query, "")
		for _, status := range got["jobs"].([]any) {
			ids = append(ids, status.(map[string]any)["id"].(string))
			if status.(map[string]any)["result"] != nil {
				t.Errorf("it has the result: %v", status)
			}
		}
		query = ""
		if next, more := got["next"].(string); more {
			query = "?state=done&kind=echo&limit=2&after=" + next
		}
	}
	if !slices.Equal(ids, want) {
		t.Errorf("the pages have %v, want %v", ids, want)
	}
	for _, bad := range []string{"state=x", "limit=0", "limit=1001", "limit=x", "after=x"} {
		if code, got := ask(t, "GET", all+"?"+bad, ""); code != http.StatusBadRequest {
			t.Error(bad, code, got)
		}
	}
}

func TestAJobIsPausedAndRunNowAndItsOutputShown(t *testing.T) {
	url, work := serve(t, "")
	all := url + "/v1/groups/nightly/jobs"
	_, got := ask(t, "POST", all, `{"kind":"slow","not_before":"2100-01-01T00:00:00Z"}`)
	id, _ := got["id"].(string)
	do := func(verb string, want int) map[string]any {
		t.Helper()
		code, got := ask(t, "POST", all+"/"+id+"/"+verb, "{}")
		if code != want {
			t.Errorf("%s: %d, %v", verb, code, got)
		}
		return got
	}
	if got := do("pause", http.StatusOK); got["paused"] != true {
		t.Error(got)
	}
	do("run", http.StatusConflict)
	if got := do("resume", http.StatusOK); got["paused"] != nil {
		t.Error(got)
	}
	do("run", http.StatusOK)
	if _, got := ask(t, "GET", all+"/"+id, ""); got["why_waiting"] != "there is no worker" {
		t.Error(got)
	}
	begin(t, work)
	overviews(t, url, func(s State) bool { return s.Counts[job.Running] == 1 })
	for { // until the handler has begun
		code, got := ask(t, "GET", all+"/"+id+"/output", "")
		if code != http.StatusOK || got["running"] != true || got["attempt"] != 1.0 {
			t.Fatal(code, got)
		}
		if got["result"] == "so far" {
			break
		}
	}
	do("cancel", http.StatusOK)
	overviews(t, url, func(s State) bool {
		return len(s.Ended) == 1 && len(s.Ended[0].History) == 1 &&
			s.Ended[0].History[0].Outcome == job.OutcomeCancelled
	})
	if code, got := ask(t, "GET", all+"/"+id+"/output", ""); code != http.StatusOK ||
		got["running"] != false {
		t.Error(code, got)
	}
	for text, want := range map[string]int{"SLOW": 1, "nothing": 0} {
		if _, got := ask(t, "GET", all+"?text="+text, ""); len(got["jobs"].([]any)) != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

// Who submits has to know that the job may be there.
func TestASubmissionWithoutAnAnswerMayHaveBeenMade(t *testing.T) {
	m := fencetest.NewMemory(10 * time.Second)
	c := m.Open()
	s := &Server{Coordinator: c, Patience: 100 * time.Millisecond, Log: slog.New(slog.DiscardHandler)}
	h := httptest.NewServer(s.Handler(t.Context()))
	t.Cleanup(func() { h.Close(); c.Close() })
	c.Cut()
	defer c.Heal()
	code, got := ask(t, "POST", h.URL+"/v1/groups/nightly/jobs", `{"kind":"echo"}`)
	says, _ := got["error"].(string)
	if code != http.StatusServiceUnavailable || !strings.Contains(says, "may have been handed in") {
		t.Error(code, got)
	}
}

// The reading ends with the last stream.
func TestAGroupIsReadWhileSomebodyLooks(t *testing.T) {
	m := fencetest.NewMemory(10 * time.Second).Open()
	defer m.Close()
	all := &boards{coordinator: m, all: map[string]*board{}}
	_, first, err := all.open("nightly")
	must.Succeed(t, err)
	shown, second, err := all.open("nightly")
	if err != nil || len(all.all) != 1 {
		t.Fatal(err, all.all)
	}
	first()
	if len(all.all) != 1 {
		t.Error("the board has ended, and somebody looks")
	}
	_, changed := shown.state()
	<-changed
	second() // waits for the reading
	if len(all.all) != 0 {
		t.Error("the board is still there")
	}
}

// failsAfter is a coordinator that answers no reading after a change.
type failsAfter struct {
	documents.Coordinator
	changed *atomic.Bool
}

func (f failsAfter) Documents() documents.Store {
	return failingStore{f.Coordinator.Documents(), f.changed}
}

type failingStore struct {
	documents.Store
	changed *atomic.Bool
}

func (f failingStore) Change(ctx context.Context, c documents.Change) ([]int64, error) {
	versions, err := f.Store.Change(ctx, c)
	f.changed.Store(err == nil)
	return versions, err
}

func (f failingStore) Get(ctx context.Context, r documents.Read) ([]documents.Document, error) {
	if f.changed.Load() {
		return nil, fmt.Errorf("%w: on purpose", documents.ErrUnreachable)
	}
	return f.Store.Get(ctx, r)
}

func TestAChangeWhoseStatusCannotBeReadWasMade(t *testing.T) {
	c := fencetest.NewMemory(10 * time.Second).Open()
	defer c.Close()
	q, err := jobs.New(c, "nightly")
	must.Succeed(t, err)
	id, err := q.Submit(t.Context(), job.Spec{Kind: "echo"})
	must.Succeed(t, err)
	s := &Server{
		Coordinator: failsAfter{c, new(atomic.Bool)}, Patience: 30 * time.Second,
		Log: slog.New(slog.DiscardHandler),
	}
	h := httptest.NewServer(s.Handler(t.Context()))
	defer h.Close()
	code, got := ask(t, "POST", h.URL+"/v1/groups/nightly/jobs/"+string(id)+"/pause", "{}")
	why, _ := got["error"].(string)
	if code != http.StatusServiceUnavailable || !strings.HasPrefix(why, "it was done, but the "+
		"status cannot be read: ") {
		t.Error(code, why)
	}
	if s, err := q.Get(t.Context(), id); err != nil || !s.Paused {
		t.Errorf("%v, %+v", err, s)
	}
}

func TestBadRequestsAreRefused(t *testing.T) {
	url, _ := serve(t, "")
	all := url + "/v1/groups/nightly/jobs"
	for body, want := range map[string]int{
		`{`:                            http.StatusBadRequest,
		`{"kind":"a"} x`:               http.StatusBadRequest,
		`{"kind":"a","unknown":1}`:     http.StatusBadRequest,
		`{"kind":""}`:                  http.StatusBadRequest,
		`{"kind":"a","payload":""}`:    http.StatusCreated,
		`{"kind":"a","every":""}`:      http.StatusBadRequest,
		`{"kind":"a","Every":" "}`:     http.StatusBadRequest,
		`{"kind":"a","unique":""}`:     http.StatusBadRequest,
		`{"kind":"a","title":""}`:      http.StatusBadRequest,
		`{"kind":"a","resource":""}`:   http.StatusBadRequest,
		`{"kind":"a","clean_up":""}`:   http.StatusBadRequest,
		`{"kind":"a","backoff":""}`:    http.StatusBadRequest,
		`{"kind":"a","timeout":""}`:    http.StatusBadRequest,
		`{"kind":"a","keep":""}`:       http.StatusBadRequest,
		`{"kind":"a","not_before":""}`: http.StatusBadRequest,
		`{"kind":"a","labels":[""]}`:   http.StatusBadRequest,
		`{"kind":"a","payload":"` + strings.Repeat("x", job.MaxPayload) + `"}`: http.StatusBadRequest,
		`{"kind":"a","payload":"` + strings.Repeat("x", maxBody) +
			`"}`: http.StatusRequestEntityTooLarge,
	} {
		if code, got := ask(t, "POST", all, body); code != want || got["error"] == "" {
			t.Errorf("%.40s: %d, %.200v", body, code, got)
		}
	}
	for path, want := range map[string]int{
		"/v1/groups/Bad/jobs":                                       http.StatusBadRequest,
		"/v1/groups/nightly/jobs/short":                             http.StatusBadRequest,
		"/v1/groups/nightly/jobs?state=":                            http.StatusBadRequest,
		"/v1/groups/nightly/jobs?kind=":                             http.StatusBadRequest,
		"/v1/groups/nightly/jobs?text=":                             http.StatusBadRequest,
		"/v1/groups/nightly/jobs?after=":                            http.StatusBadRequest,
		"/v1/groups/nightly/jobs?limit=":                            http.StatusBadRequest,
		"/v1/groups/nightly/jobs/00000000000000000000000000":        http.StatusNotFound,
		"/v1/groups/nightly/jobs/00000000000000000000000000/events": http.StatusNotFound,
	} {
		if code, got := ask(t, "GET", url+path, ""); code != want {
			t.Errorf("%s: %d, %v", path, code, got)
		}
	}
	// as a form of a foreign page
	got, err := http.Post(all, "text/plain", strings.NewReader(`{"kind":"a"}`))
	must.Succeed(t, err)
	defer got.Body.Close()
	if got.StatusCode != http.StatusUnsupportedMediaType {
		t.Error(got.Status)
	}
}

func TestAJobThatRepeatsShowsWhatChangesOfClocksDo(t *testing.T) {
	url, _ := serve(t, "")
	all := url + "/v1/groups/nightly/jobs"
	for every, effects := range map[string]string{
		"CRON_TZ=Europe/Berlin 30 2 * * *":      "late once",
		"CRON_TZ=Europe/Berlin */20 2 * * *":    "left out twice",
		"CRON_TZ=Australia/Lord_Howe 0 2 * * 0": "late",
		"30 2 * * *":                            "",
		"15m":                                   "",
	} {
		code, created := ask(t, "POST", all, fmt.Sprintf(`{"kind":"none","every":%q}`, every))
		if code != http.StatusCreated {
			t.Fatal(code, created)
		}
		_, job := ask(t, "GET", all+"/"+created["id"].(string), "")
		calendar, _ := job["calendar"].(map[string]any)
		if rounds, _ := calendar["rounds"].([]any); len(rounds) != 3 {
			t.Errorf("%s: %v", every, job)
		}
		var got []string
		changes, _ := calendar["clock_changes"].([]any)
		for _, c := range changes {
			got = append(got, c.(map[string]any)["effect"].(string))
		}
		slices.Sort(got)
		if strings.Join(got, " ") != effects {
			t.Errorf("%s: %v, want %s", every, changes, effects)
		}
	}
	code, created := ask(t, "POST", all, `{"kind":"none"}`)
	if _, job := ask(t, "GET", all+"/"+created["id"].(string), ""); job["calendar"] != nil {
		t.Error(code, job)
	}
}

// The description names what the types have.
func TestOpenAPIDescribesTheTypes(t *testing.T) {
	var doc struct {
		Components struct {
			Schemas map[string]struct{ Properties map[string]any }
		}
	}
	must.Succeed(t, yaml.Unmarshal(openAPI, &doc))
	for name, of := range map[string]any{
		"Spec": job.Spec{}, "Status": job.Status{}, "Worker": queueview.Worker{}, "Overview": State{},
		"Attempt": job.Attempt{}, "Calendar": schedule.Calendar{}, "ClockChange": schedule.ClockChange{},
	} {
		described := doc.Components.Schemas[name].Properties
		for f := range reflect.TypeOf(of).Fields() {
			tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if described[tag] == nil {
				t.Errorf("%s.%s is not described", name, tag)
			}
			delete(described, tag)
		}
		for left := range described {
			t.Errorf("%s.%s does not exist", name, left)
		}
	}
}
