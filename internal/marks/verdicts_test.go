package marks_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/marks/markstest"
	"github.com/ringfence/ringfence/internal/refusal"
	"github.com/ringfence/ringfence/internal/test/must"
)

// electorate is a coordinator whose leader has one token. It counts how often it is asked.
type electorate struct {
	leads fence.Token
	hung  chan struct{} // if not nil, no answer comes before it is closed

	mu    sync.Mutex
	asked int
}

func (e *electorate) Issuer(context.Context) (fence.Issuer, error) { return "one", nil }
func (e *electorate) Verifies() bool                               { return true }

func (e *electorate) Verify(ctx context.Context, all []marks.Presented) ([]fence.Claim, error) {
	e.mu.Lock()
	e.asked++
	e.mu.Unlock()
	if e.hung != nil {
		select {
		case <-e.hung:
		case <-ctx.Done():
			return marks.Under("", all), refusal.Unverified(all[0].Under(""), ctx.Err())
		}
	}
	claims := marks.Under("one", all)
	for _, c := range claims {
		if c.Token != e.leads {
			return claims, refusal.NotLeader(c, "another one leads")
		}
	}
	return claims, nil
}

func (e *electorate) Confirm(
	ctx context.Context, c fence.Claim, _ marks.Mark,
) (fence.Claim, error) {
	_, err := e.Verify(ctx, marks.Present(c))
	return c, err
}

func (e *electorate) times() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.asked
}

// loop connects n times under a token, as a client does that is refused at once, and returns how
// often it got as far as the login.
func loop(
	t *testing.T, a *marks.Admission, m *markstest.Model, token fence.Token, n int,
) (logins int) {
	t.Helper()
	for range n {
		err := a.Precheck(t.Context(), claimed(token))
		if err == nil {
			logins++
			err = a.Admit(t.Context(), m.Connect().Session(), claimed(token))
		}
		if !errors.Is(err, fence.ErrStale) {
			t.Fatalf("token %s is refused with %v", token, err)
		}
	}
	return logins
}

// restarted returns a store with a mark of 7 that is unconfirmed, so that no guard remembers it.
func restarted(t *testing.T) *markstest.Model {
	t.Helper()
	m := markstest.NewModel()
	first := &marks.Admission{Store: m, Authority: &electorate{leads: 7}}
	must.Succeed(t, first.Admit(t.Context(), m.Connect().Session(), claimed(7)))
	m.Restart()
	return m
}

func TestATokenThatWasRefusedAsStaleIsCheckedOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, e := restarted(t), &electorate{leads: 7}
		a := &marks.Admission{Store: m, Authority: e}
		if n := loop(t, a, m, 5, crowd); n != 1 || e.times() != 1 {
			t.Errorf("%d logins and %d questions, want one of each", n, e.times())
		}
		for range 3 {
			time.Sleep(time.Second)
			if n := loop(t, a, m, 5, crowd); n != 0 {
				t.Errorf("%d more logins", n)
			}
		}
		if n := e.times(); n != 4 {
			t.Errorf("%d questions in three seconds, want 4", n)
		}
		if err := a.Admit(t.Context(), m.Connect().Session(), claimed(7)); err != nil {
			t.Errorf("the leader is refused: %v", err)
		}
	})
}

func TestSeveralStaleTokensDoNotDisplaceEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, e := restarted(t), &electorate{leads: 7}
		a := &marks.Admission{Store: m, Authority: e}
		for range crowd {
			for token := range fence.Token(6) {
				loop(t, a, m, token+1, 1)
			}
		}
		if n := e.times(); n != 6 {
			t.Errorf("%d questions about six tokens", n)
		}
	})
}

func TestACrowdDoesNotWaitForACoordinatorThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, e := restarted(t), &electorate{leads: 7}
		a := &marks.Admission{Store: m, Authority: e}
		loop(t, a, m, 5, 1)
		time.Sleep(time.Second)
		e.hung = make(chan struct{})
		var asks sync.WaitGroup
		asks.Go(func() { loop(t, a, m, 5, 1) })
		synctest.Wait() // it waits for the coordinator
		start := time.Now()
		if n := loop(t, a, m, 5, crowd); n != 0 {
			t.Errorf("%d logins", n)
		}
		if d := time.Since(start); d != 0 {
			t.Errorf("the crowd has waited %v", d)
		}
		close(e.hung)
		asks.Wait()
	})
}

// The resource has a new count, in which the token leads.
func TestARefusedTokenThatLeadsAfterAnAdoptionIsAdmitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, e := restarted(t), &electorate{leads: 7}
		a := &marks.Admission{Store: m, Authority: e, Recheck: time.Minute}
		loop(t, a, m, 5, 10)
		e.leads = 5
		if _, err := m.Adopt(t.Context(), fence.Claim{
			Resource: "orders", Issuer: "one",
		}, "ann"); err != nil {
			t.Fatal(err)
		}
		loop(t, a, m, 5, 10) // nobody has looked yet
		time.Sleep(time.Minute)
		must.Succeed(t, a.Precheck(t.Context(), claimed(5)))
		must.Report(t, a.Admit(t.Context(), m.Connect().Session(), claimed(5)))
	})
}
