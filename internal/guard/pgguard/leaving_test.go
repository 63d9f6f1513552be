package pgguard

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/test/pgtest"
)

// released is a store that calls a function after it has let sessions go.
type released struct {
	marks.Store
	then func()
}

func (r *released) Release(ctx context.Context, all ...marks.Departed) ([]marks.SessionID, error) {
	leaving, err := r.Store.Release(ctx, all...)
	if len(leaving) > 0 && all[0].Proof != "" {
		r.then()
	}
	return leaving, err
}

func (r *released) wrap(s marks.Store) marks.Store { r.Store = s; return r }

// letGo opens a session under token 5 that keeps a row locked, and lets it go for one under token
// 7.
func (g *guarded) letGo() {
	g.t.Helper()
	a := g.open(5)
	g.exec(a, "begin")
	g.exec(a, "lock table ledger")
	g.open(7)
}

const leaving = "select count(*) from ringfence_private.leaving"

// unlocked checks that the lock is gone, before the first sweep of any guard.
func (g *guarded) unlocked(c *pgx.Conn) {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(g.t.Context(), 30*time.Second)
	defer cancel()
	if _, err := c.Exec(ctx, "insert into ledger (token) values (7)"); err != nil {
		g.t.Fatalf("the lock of a backend that was let go: %v", err)
	}
}

// The end of the connection to the server gets lost, after the session was let go. A slow machine
// may miss the time for the proof, and then the session is revoked instead.
func TestABackendThatWasLetGoIsEndedThoughItsConnectionIsHalfOpen(t *testing.T) {
	t.Parallel()
	for range 5 {
		if lostOnceLetGo(t) {
			return
		}
	}
	t.Error("nobody was let go")
}

func lostOnceLetGo(t *testing.T) (lost bool) {
	r := &released{}
	g, p := tappedGuard(t, setup{wrap: r.wrap})
	r.then = func() {
		p.of("app")[0].lose()
		lost = true
	}
	g.letGo()
	g.unlocked(g.open(7))
	g.until(leaving, 0)
	return lost
}

// The guard stops after it has let the session go, and before it ends it. Nothing of it goes on.
func TestALaterRevocationEndsABackendThatAnotherGuardHasLetGo(t *testing.T) {
	t.Parallel()
	stopped := make(chan struct{})
	r := &released{then: func() {
		close(stopped)
		<-t.Context().Done()
	}}
	g, p := tappedGuard(t, setup{wrap: r.wrap})
	a := g.open(5)
	g.exec(a, "begin")
	g.exec(a, "lock table ledger")
	go func() { _, _ = g.dial(7) }()
	select {
	case <-stopped:
	case <-time.After(30 * time.Second):
		t.Fatal("nobody was let go")
	}
	for _, c := range p.of("app") {
		c.lose()
	}
	if n := g.count(leaving); n != 1 {
		t.Fatalf("%d backends are leaving", n)
	}

	other := g.another(setup{})
	other.unlocked(other.open(9))
}

// Whoever is not proved to be at rest is ended by the server before the newcomer is admitted.
// It changes a role of the shared server, so it runs alone.
func TestASessionWithoutAProofIsEndedByTheServer(t *testing.T) {
	for name, statement := range map[string]string{
		"the server does not show statements": "alter role app set track_activities = off",
		"the server does":                     "alter role app reset track_activities",
	} {
		t.Run(name, func(t *testing.T) {
			var s unrevoking
			g := fencedBy(t, setup{wrap: func(real marks.Store) marks.Store { s.Store = real; return &s }})
			pgtest.Exec(t, g.pg.URL("postgres", g.database), statement)
			t.Cleanup(func() {
				pgtest.Exec(t, g.pg.URL("postgres", g.database), "alter role app reset track_activities")
			})
			failed := g.open(5)
			g.exec(failed, "begin")
			if _, err := failed.Exec(t.Context(), "select 1/0"); err == nil {
				t.Fatal("no error")
			}
			g.open(7)
			_, err := failed.Exec(t.Context(), "select 1")
			wantCode(t, err, "RF001")
			if calls, shown := s.calls.Load(), name == "the server does"; (calls == 0) != shown {
				t.Errorf("the server was asked to end sessions %d times", calls)
			}
		})
	}
}
