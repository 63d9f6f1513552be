package main

import (
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/cmd/internal/cli"
)

// installed starts a guard for a fresh server, with further settings.
func installed(t *testing.T, settings ...string) *running {
	t.Helper()
	_, env := fresh(t)
	if code, _, errs := invoke(t, env, "install"); code != cli.Done {
		t.Fatalf("install: exit code %d: %s", code, errs)
	}
	r := serving(t, append(env, settings...)...)
	r.ready(200)
	return r
}

// lines returns the lines of a log that are about an event.
func lines(t *testing.T, log, event string) (found []map[string]any) {
	t.Helper()
	for line := range strings.Lines(log) {
		fields := map[string]any{}
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			continue // what a subcommand prints besides
		}
		if fields["event"] == event {
			found = append(found, fields)
		}
	}
	return found
}

func TestACrowdOfStaleReconnectsIsAHandfulOfLinesAndAllAreCounted(t *testing.T) {
	t.Parallel()
	const crowd = 1000
	r := installed(t)
	if _, err := r.connect(7); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range crowd / 4 {
				_, err := r.connect(5)
				var refused *pgconn.PgError
				if !errors.As(err, &refused) || refused.Code != "RF001" {
					t.Errorf("got %v", err)
					return
				}
			}
		})
	}
	all.Wait()
	r.stop()
	code := <-r.exited
	r.exited <- code
	refusals := lines(t, r.log.String(), "refused")
	sum := 0.0
	for _, l := range refusals {
		sum += l["count"].(float64)
	}
	if len(refusals) > 10 || sum != crowd {
		t.Errorf("%d lines with %v refusals", len(refusals), sum)
	}
}

func TestAnAdoptionIsLoggedWithItsOperator(t *testing.T) {
	t.Parallel()
	r := installed(t)
	if _, err := r.connect(7); err != nil {
		t.Fatal(err)
	}
	code, _, log := invoke(t, r.env, "adopt", "orders")
	found := lines(t, log, "adopted")
	if code != cli.Done || len(found) != 1 {
		t.Fatalf("exit code %d, %v:\n%s", code, found, log)
	}
	l := found[0]
	if l["by"] != operator(hostname()) || l["old_token"] != "7" || l["resource"] != "orders" ||
		l["protocol"] != "postgres" || l["old_issuer"] != "unverified" {
		t.Errorf("%v", l)
	}
}
