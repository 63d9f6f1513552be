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
	"github.com/ringfence/ringfence/internal/test/must"
)

// slow is a store that takes a second for Release and Marks, and counts the calls.
type slow struct {
	marks.Store
	mu             sync.Mutex
	busy           int
	releases, read int
}

func (s *slow) take(calls *int) {
	s.mu.Lock()
	*calls++
	s.busy++
	if s.busy > 1 {
		panic("two calls at once")
	}
	s.mu.Unlock()
	time.Sleep(time.Second)
	s.mu.Lock()
	s.busy--
	s.mu.Unlock()
}

func (s *slow) Release(ctx context.Context, all ...marks.Departed) ([]marks.SessionID, error) {
	s.take(&s.releases)
	return s.Store.Release(ctx, all...)
}

func (s *slow) Marks(ctx context.Context, only ...fence.Resource) ([]marks.Mark, error) {
	s.take(&s.read)
	return s.Store.Marks(ctx, only...)
}

const crowd = 1000

func claimed(t fence.Token) []marks.Presented {
	return []marks.Presented{{Resource: "orders", Token: t}}
}

// through makes an Admission of a store and admits sessions under a token.
func through(t *testing.T, s marks.Store, m *markstest.Model, token fence.Token, n int) (
	a *marks.Admission, sessions []*markstest.ModelConn,
) {
	t.Helper()
	a = &marks.Admission{Store: s, Authority: marks.Unverified{}}
	for range n {
		c := m.Connect()
		must.Succeed(t, a.Admit(t.Context(), c.Session(), claimed(token)))
		sessions = append(sessions, c)
	}
	return a, sessions
}

// recorded counts the records of orders.
func recorded(t *testing.T, m *markstest.Model) int {
	t.Helper()
	all, err := m.Marks(t.Context())
	if err != nil || len(all) != 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	return all[0].Sessions
}

// releaseAll ends all sessions and releases each in its own goroutine, as guards do.
func releaseAll(t *testing.T, a *marks.Admission, token fence.Token, all []*markstest.ModelConn) {
	var done sync.WaitGroup
	for _, c := range all {
		c.Close()
		done.Go(func() { a.Release(t.Context(), c.Session(), claimed(token)) })
	}
	done.Wait()
}

func TestSessionsThatEndTogetherAreReleasedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := markstest.NewModel()
		s := &slow{Store: m}
		a, all := through(t, s, m, 5, crowd)
		releaseAll(t, a, 5, all)
		if n := recorded(t, m); n != 0 || s.releases > 2 {
			t.Errorf("%d records are left, after %d calls", n, s.releases)
		}
	})
}

// The revocation removes the records of the sessions that it ends.
func TestARevokedSessionIsNotReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := markstest.NewModel()
		s := &slow{Store: m}
		a, all := through(t, s, m, 5, crowd)
		must.Succeed(t, a.Admit(t.Context(), m.Connect().Session(), claimed(7)))
		releaseAll(t, a, 5, all)
		if n := recorded(t, m); n != 1 || s.releases != 0 {
			t.Errorf("%d records are left, after %d calls", n, s.releases)
		}
		both := m.Connect()
		claims := append(claimed(7), marks.Presented{Resource: "stock", Token: 1})
		must.Succeed(t, a.Admit(t.Context(), both.Session(), claims))
		must.Succeed(t, a.Admit(t.Context(), m.Connect().Session(), claimed(9)))
		a.Release(t.Context(), both.Session(), claims)
		if s.releases != 1 {
			t.Error("the session's record under the other resource stays")
		}
	})
}

// A guard that did not raise the mark asks why its sessions were ended.
func TestACrowdThatAsksWhyItWasEndedCostsTwoQueries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := markstest.NewModel()
		s := &slow{Store: m}
		a, _ := through(t, s, m, 5, 1)
		through(t, m, m, 7, 1) // through another guard
		var done sync.WaitGroup
		for range crowd {
			done.Go(func() {
				if err := a.Ended(t.Context(), claimed(5)); !errors.Is(err, fence.ErrStale) {
					t.Errorf("ended because of %v", err)
				}
			})
		}
		done.Wait()
		if s.read > 2 {
			t.Errorf("%d queries", s.read)
		}
	})
}
