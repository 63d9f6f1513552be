package pgguard

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
)

// gate is a store that stops an admission at one point: before or after its n-th call.
type gate struct {
	marks.Store
	mu      sync.Mutex
	at      int // the point, from 0
	passed  int
	where   string
	reached chan struct{} // closed when the admission has reached the point
	open    chan struct{} // the test closes it to let the admission continue
}

func gateAt(at int) *gate {
	return &gate{at: at, reached: make(chan struct{}), open: make(chan struct{})}
}

// await waits until an admission has reached the gate.
func (g *gate) await(t *testing.T) {
	t.Helper()
	select {
	case <-g.reached:
	case <-time.After(20 * time.Second):
		t.Fatal("no admission has reached the gate")
	}
}

func (g *gate) wrap(s marks.Store) marks.Store { g.Store = s; return g }

func (g *gate) point(where string) {
	g.mu.Lock()
	here := g.passed == g.at
	g.passed++
	if here {
		g.where = where
	}
	g.mu.Unlock()
	if here {
		close(g.reached)
		<-g.open
	}
}

func (g *gate) Register(
	ctx context.Context, s marks.SessionID, claims []fence.Claim,
) (marks.Registration, error) {
	g.point("before a registration")
	st, err := g.Store.Register(ctx, s, claims)
	g.point("after a registration")
	return st, err
}

func (g *gate) Raise(
	ctx context.Context, newcomer marks.SessionID, c fence.Claim, confirm marks.Confirm,
) (marks.Mark, error) {
	g.point("before a raise")
	confirmed := func(ctx context.Context, m marks.Mark) (fence.Claim, error) {
		c, err := confirm(ctx, m)
		g.point("after the confirmation of a raise")
		return c, err
	}
	m, err := g.Store.Raise(ctx, newcomer, c, confirmed)
	g.point("after a raise")
	return m, err
}

func (g *gate) Revoke(ctx context.Context, newcomer marks.SessionID, c fence.Claim) (int, error) {
	g.point("before a revocation")
	n, err := g.Store.Revoke(ctx, newcomer, c)
	g.point("after a revocation")
	return n, err
}

// dialed is the result of a dial in the background.
type dialed struct {
	conn *pgx.Conn
	err  error
}

// dialing dials in the background.
func (g *guarded) dialing(token fence.Token) <-chan dialed {
	result := make(chan dialed, 1)
	go func() {
		c, err := g.dial(token)
		result <- dialed{c, err}
	}()
	return result
}

// atEveryPoint runs a story for each point at which the admission of a token through one guard can
// stop, while another guard of the same database keeps running. At first there is a session under
// token 3, so that every step is taken.
func atEveryPoint(t *testing.T, token fence.Token, story func(
	t *testing.T, running *guarded, paused <-chan dialed, resume func(),
)) {
	points := 0
	for at := 0; ; at++ {
		stop := gateAt(at)
		running := fenced(t)
		running.open(3)
		stopped := running.another(setup{wrap: stop.wrap, Options: Options{
			// the story takes longer than usual
			Admission: &marks.Admission{Authority: marks.Unverified{}, Timeout: time.Minute},
		}})
		result := stopped.dialing(token)
		select {
		case <-stop.reached:
		case d := <-result:
			if d.err != nil {
				t.Fatal(d.err)
			}
			if points < 8 { // register, raise, revoke, register
				t.Errorf("the admission passed only %d points", points)
			}
			return
		}
		points++
		t.Run(fmt.Sprintf("%d %s", at, stop.where), func(t *testing.T) {
			resume := sync.OnceFunc(func() { close(stop.open) })
			defer resume()
			story(t, running, result, resume)
		})
		running.hangUp()
		stopped.hangUp()
		running.Stop()
		stopped.Stop()
	}
}

func TestAnOlderLeaderWhoseGuardStopsAnywhereWritesNothingOnceTheNewerIsReady(t *testing.T) {
	t.Parallel()
	atEveryPoint(t, 5, func(t *testing.T, running *guarded, paused <-chan dialed, resume func()) {
		fresh := running.open(7)
		running.exec(fresh, "insert into ledger (token) values (7)")
		resume()
		late := <-paused
		err := late.err
		if err == nil {
			_, err = late.conn.Exec(t.Context(), "insert into ledger (token) values (5)")
		}
		wantCode(t, err, "RF001")
		running.exec(fresh, "insert into ledger (token) values (7)")
		if n := running.count("select count(*) from ledger where token = 5"); n != 0 {
			t.Errorf("%d stale writes", n)
		}
	})
}

func TestANewerLeaderWhoseGuardStopsAnywhereIsReadyOnlyWhenNoOlderSessionIsLeft(t *testing.T) {
	t.Parallel()
	atEveryPoint(t, 7, func(t *testing.T, running *guarded, paused <-chan dialed, resume func()) {
		old, refused := running.dial(5) // admitted unless the mark has been raised already
		if refused == nil {
			running.exec(old, "begin")
			_, refused = old.Exec(t.Context(), "insert into ledger (token) values (5)")
		}
		if refused != nil {
			wantCode(t, refused, "RF001")
		}
		resume()
		late := <-paused
		if late.err != nil {
			t.Fatal(late.err)
		}
		n := running.count(`select count(*) from pg_stat_activity a
		    join ringfence_private.session s using (pid, backend_start) where s.token < 7`)
		if n != 0 {
			t.Errorf("%d older sessions live when the newer leader is ready", n)
		}
		if refused == nil {
			_, err := old.Exec(t.Context(), "commit")
			wantCode(t, err, "RF001")
		}
		running.exec(late.conn, "insert into ledger (token) values (7)")
		if n := running.count("select count(*) from ledger where token = 5"); n != 0 {
			t.Errorf("%d stale writes", n)
		}
	})
}

func TestAGuardThatStopsBetweenTwoStepsDoesNotEndSessionsOfTheSameToken(t *testing.T) {
	t.Parallel()
	atEveryPoint(t, 7, func(t *testing.T, running *guarded, paused <-chan dialed, resume func()) {
		same := running.open(7)
		resume()
		late := <-paused
		if late.err != nil {
			t.Fatal(late.err)
		}
		running.exec(same, "insert into ledger (token) values (7)")
		running.exec(late.conn, "insert into ledger (token) values (7)")
	})
}
