package pgguard

import (
	"strings"
	"sync"
	"testing"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/internal/marks"
)

// recorded collects events.
type recorded struct {
	mu     sync.Mutex
	events []marks.Event
}

func (r *recorded) add(e marks.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// of returns the last event of a kind.
func (r *recorded) of(t *testing.T, kind marks.EventKind) (last marks.Event) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e.Kind == kind {
			last = e
		}
	}
	if last.Kind == "" {
		t.Fatalf("nothing was %s", kind)
	}
	return last
}

func TestEveryEventNamesTheClient(t *testing.T) {
	t.Parallel()
	r := &recorded{}
	g := fencedBy(t, setup{notify: r.add})
	for _, token := range []fence.Token{5, 7, 6} {
		_, err := g.dialURL(g.url("app", token) + "&application_name=billing")
		if token == 6 {
			wantCode(t, err, "RF001")
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for _, kind := range []marks.EventKind{
		marks.Raised, marks.Revoked, marks.Opened, marks.Finished, marks.Refused,
	} {
		c := r.of(t, kind).Client
		if !strings.HasPrefix(c.Address, "127.0.0.1:") || c.User != "app" || c.Application != "billing" {
			t.Errorf("the client of %q is %+v", kind, c)
		}
	}
	_, err := g.dialURL(g.url("app", 6) + "&application_name=another")
	wantCode(t, err, "RF001")
	if e := r.of(t, marks.Refused); e.Claim.Holder != "app@"+e.Client.Address+" (another)" {
		t.Errorf("the refusal names %q, of %+v", e.Claim.Holder, e.Client)
	}
}

func TestAGuardReportsAnAdoptionOnce(t *testing.T) {
	t.Parallel()
	r := &recorded{}
	g := fencedBy(t, setup{notify: r.add})
	g.open(7)
	adopted := fence.Claim{Resource: "orders", Issuer: elector.Unverified}
	if _, err := g.store.Adopt(t.Context(), adopted, "ann@desk"); err != nil {
		t.Fatal(err)
	}
	g.open(5)
	g.open(5)
	e := r.of(t, marks.Adopted)
	if e.Before.Token != 7 || e.Before.Issuer != elector.Unverified || e.Claim.Resource != "orders" ||
		e.Client != (marks.Client{}) {
		t.Errorf("%+v", e)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, e := range r.events {
		if e.Kind == marks.Adopted {
			n++
		}
	}
	if n != 1 {
		t.Errorf("reported %d times", n)
	}
}
