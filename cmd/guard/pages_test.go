package main

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/cmd/guard/internal/page"
	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// states opens the stream of the status page. It returns a function that waits for a state, and one
// that waits for the end of the stream.
func (r *running) states() (await func(what string, is func(page.State) bool), ended func()) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.t.Context()), time.Minute)
	r.t.Cleanup(cancel)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.page+"/events", nil)
	must.Succeed(r.t, err)
	answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	must.Succeed(r.t, err)
	r.t.Cleanup(func() { _ = answer.Body.Close() })
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 1<<20)
	await = func(what string, is func(page.State) bool) {
		r.t.Helper()
		var last string
		for lines.Scan() {
			data, ok := strings.CutPrefix(lines.Text(), "data: ")
			if !ok {
				continue
			}
			var s page.State
			must.Succeed(r.t, json.Unmarshal([]byte(data), &s))
			if is(s) {
				return
			}
			last = data
		}
		r.t.Fatalf("no state with %s: %v; the last: %s", what, lines.Err(), last)
	}
	return await, func() {
		r.t.Helper()
		for lines.Scan() {
		}
		if lines.Err() != nil {
			r.t.Errorf("the stream did not end: %v", lines.Err())
		}
	}
}

func TestTheStatusPageKnowsTheGuardAndTheStore(t *testing.T) {
	t.Parallel()
	_, env := fresh(t)
	rd := serverstest.Redis(t, servers.RedisOptions{})
	env = append(env, "GUARD_REDIS_UPSTREAM="+rd.URL())
	if code, _, errs := invoke(t, env, "install"); code != cli.Done {
		t.Fatal(errs)
	}
	r := serving(t, append(env, "GUARD_REDIS_LISTEN="+serverstest.FreeAddresses(t, 1)[0])...)
	r.ready(http.StatusOK)
	other := serving(t, env...)
	other.ready(http.StatusOK)
	old, err := r.connect(5)
	must.Succeed(t, err)
	await, _ := r.states()
	await("the session", func(s page.State) bool {
		return len(s.Stores) == 2 && s.Stores[0].Sessions == 1 && s.Open == 1 &&
			len(s.Resources) == 1 && s.Resources[0].Marks[0].Token == 5 && s.Sessions[0].Token == 5 &&
			strings.HasPrefix(s.Sessions[0].Holder, "app@")
	})

	if _, err := other.connect(9); err != nil { // through the other guard
		t.Fatal(err)
	}
	await("the newer leader of another guard, and without the session that it has ended",
		func(s page.State) bool {
			return s.Resources[0].Marks[0].Token == 9 && s.Open == 0 && len(s.Resources[0].Terms) == 2 &&
				s.Resources[0].Marks[0].Sessions == 1
		})
	if err := old.Ping(t.Context()); err == nil {
		t.Error("the older session is still open")
	}
	_, err = r.connect(5)
	wantCode(t, err, "RF001")
	await("the refusal", func(s page.State) bool {
		return len(s.Refusals) == 1 && s.Refusals[0].Token == 5 && s.Refusals[0].Mark == 9 &&
			s.Refusals[0].Reason == "stale" && strings.HasPrefix(s.Refusals[0].Holder, "app@")
	})
}

func TestTheStatusPageSaysThatAStoreCannotBeRead(t *testing.T) {
	t.Parallel()
	pg, env := fresh(t)
	env[0] = strings.Replace(env[0], "guard@", "guard:s3cret@", 1)
	invoke(t, env, "install")
	r := serving(t, env...)
	r.ready(http.StatusOK)
	await, _ := r.states()
	await("a store that was read", func(s page.State) bool { return !s.Stores[0].Read.IsZero() })
	must.Succeed(t, pg.Kill())
	await("the error", func(s page.State) bool {
		if strings.Contains(s.Stores[0].Error, "s3cret") {
			t.Errorf("a secret is in %q", s.Stores[0].Error)
		}
		return s.Stores[0].Error != ""
	})
	must.Succeed(t, pg.Start(t.Context()))
	await("no error", func(s page.State) bool { return s.Stores[0].Error == "" })
}

func TestAnOpenStatusPageDoesNotKeepTheGuardFromStopping(t *testing.T) {
	t.Parallel()
	_, env := fresh(t)
	invoke(t, env, "install")
	r := serving(t, env...)
	r.ready(http.StatusOK)
	await, ended := r.states()
	await("anything", func(page.State) bool { return true })
	r.stop()
	ended()
	code := <-r.exited
	r.exited <- code
	if code != cli.Done {
		t.Errorf("exit code %d", code)
	}
}
