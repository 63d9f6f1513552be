package marks_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/fence/fencetest"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/marks/markstest"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/poll"
)

// followed is a follower, its coordinator, and what is admitted under the token of its leader.
type followed struct {
	t *testing.T
	*marks.Follower
	co *fencetest.Client
}

func follow(t *testing.T) *followed {
	t.Helper()
	co := fencetest.NewMemory(time.Minute).Open()
	t.Cleanup(func() { _ = co.Close() })
	f := &followed{t, &marks.Follower{Observer: co, Log: slog.New(slog.DiscardHandler)}, co}
	t.Cleanup(f.Close)
	return f
}

func (f *followed) elect() *fence.Term {
	f.t.Helper()
	term, err := f.co.Campaign(f.t.Context(), "orders", "a")
	must.Succeed(f.t, err)
	return term
}

// admit admits a session to a store under a term.
func (f *followed) admit(s marks.Store, m *markstest.Model, term *fence.Term) *marks.Admission {
	f.t.Helper()
	a := &marks.Admission{Store: s, Authority: marks.Elected{Observer: f.co}}
	must.Succeed(f.t, a.Admit(f.t.Context(), m.Connect().Session(), claimed(term.Token())))
	return a
}

func (f *followed) resign(term *fence.Term) {
	f.t.Helper()
	must.Succeed(f.t, term.Resign(f.t.Context()))
}

// await waits until the mark of a store is the token of a term.
func (f *followed) await(m *markstest.Model, term *fence.Term) {
	f.t.Helper()
	var all []marks.Mark
	if !poll.Until(30*time.Second, func() bool {
		var err error
		all, err = m.Marks(f.t.Context(), "orders")
		must.Succeed(f.t, err)
		return len(all) == 1 && all[0].Token == term.Token()
	}) {
		f.t.Fatalf("the mark is %v, not %s", all, term.Token())
	}
}

// broken is a store whose marks cannot be raised any more.
type broken struct {
	*markstest.Model
	now bool
}

func (b *broken) Raise(
	ctx context.Context, s marks.SessionID, c fence.Claim, confirm marks.Confirm,
) (marks.Mark, error) {
	if b.now {
		return marks.Mark{}, errors.New("the database was dropped")
	}
	return b.Model.Raise(ctx, s, c, confirm)
}

func TestAStoreThatCannotBeRaisedKeepsNoOtherWaiting(t *testing.T) {
	f := follow(t)
	bad, good := &broken{Model: markstest.NewModel()}, markstest.NewModel()
	first := f.elect()
	f.Add(f.admit(bad, bad.Model, first))
	f.Add(f.admit(good, good, first))
	bad.now = true
	f.Follow("orders", first.Token())
	f.resign(first)
	f.await(good, f.elect())
}

func TestAStoreThatComesLateIsRaisedToo(t *testing.T) {
	f := follow(t)
	early, late := markstest.NewModel(), markstest.NewModel()
	first := f.elect()
	f.Add(f.admit(early, early, first))
	f.Follow("orders", first.Token())
	a := f.admit(late, late, first) // and the guard has not heard of it
	f.resign(first)
	second := f.elect()
	f.await(early, second)
	f.Add(a)
	f.Follow("orders", first.Token())
	f.await(late, second)
}

// silent is a coordinator that does not say who leads any more.
type silent struct {
	elector.Observer
	asked chan struct{}
	now   atomic.Bool
}

func (s *silent) Leaders(
	ctx context.Context, rs ...fence.Resource,
) (fence.Issuer, []elector.Candidate, error) {
	if !s.now.Load() {
		return s.Observer.Leaders(ctx, rs...)
	}
	s.asked <- struct{}{}
	<-ctx.Done()
	return "", nil, ctx.Err()
}

// However many sessions are admitted while the coordinator is away, one goroutine waits for it.
func TestManyAdmissionsInAnOutageWaitForTheCoordinatorOnce(t *testing.T) {
	f := follow(t)
	s := &silent{Observer: f.co, asked: make(chan struct{}, 100)}
	f.Observer = s
	store := markstest.NewModel()
	first := f.elect()
	f.Add(f.admit(store, store, first))
	f.Follow("orders", first.Token())
	f.resign(first)
	f.await(store, f.elect())
	s.now.Store(true)
	for range 100 {
		f.Follow("orders", first.Token())
	}
	<-s.asked
	f.Close()
	if n := len(s.asked); n > 0 {
		t.Errorf("%d more have asked", n)
	}
}

func TestAStoreThatWasRemovedIsLeftAlone(t *testing.T) {
	f := follow(t)
	gone, stays := markstest.NewModel(), markstest.NewModel()
	first := f.elect()
	a := f.admit(gone, gone, first)
	f.Add(a)
	f.Add(f.admit(stays, stays, first))
	f.Follow("orders", first.Token())
	f.Remove(a)
	f.resign(first)
	f.await(stays, f.elect())
	f.Close() // and with it what is under way
	f.await(gone, first)
}

func TestTheFollowerKnowsWhoseElectionsNobodyLeads(t *testing.T) {
	f := follow(t)
	if all := f.Elections(); len(all) != 0 {
		t.Errorf("it follows nothing, and knows %v", all)
	}
	led := func(want bool) {
		t.Helper()
		if !poll.Until(20*time.Second, func() bool {
			now, known := f.Elections()["orders"]
			return known && (now.Token != 0) == want
		}) {
			t.Fatalf("led: %v, want %v", f.Elections(), want)
		}
	}
	term := f.elect()
	f.Follow("orders", term.Token())
	led(true)
	f.resign(term)
	led(false)
	f.elect()
	led(true)
}
