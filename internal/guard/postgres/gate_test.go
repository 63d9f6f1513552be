package postgres

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

// gate is a store that stands still at one point of an admission: before or after its n-th call.
type gate struct {
	marks.Store
	mu      sync.Mutex
	at      int // which point, counted from 0
	passed  int
	where   string
	reached chan struct{} // closed when it stands still
	open    chan struct{} // lets it go on
}

func gateAt(at int) *gate {
	return &gate{at: at, reached: make(chan struct{}), open: make(chan struct{})}
}

// stands waits until an admission stands still.
func (g *gate) stands(t *testing.T) {
	t.Helper()
	select {
	case <-g.reached:
	case <-time.After(20 * time.Second):
		t.Fatal("no admission came to the gate")
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

func (g *gate) Register(ctx context.Context, s marks.Session, claims []fence.Claim) (marks.Standing, error) {
	g.point("before a registration")
	st, err := g.Store.Register(ctx, s, claims)
	g.point("after a registration")
	return st, err
}

func (g *gate) Raise(ctx context.Context, newcomer marks.Session, c fence.Claim, confirm marks.Confirm) (marks.Mark, error) {
	g.point("before a raise")
	m, err := g.Store.Raise(ctx, newcomer, c, func(ctx context.Context, m marks.Mark) (fence.Claim, error) {
		c, err := confirm(ctx, m)
		g.point("after the confirmation of a raise")
		return c, err
	})
	g.point("after a raise")
	return m, err
}

func (g *gate) Revoke(ctx context.Context, newcomer marks.Session, c fence.Claim) (int, error) {
	g.point("before a revocation")
	n, err := g.Store.Revoke(ctx, newcomer, c)
	g.point("after a revocation")
	return n, err
}

// dialed is what became of a dial that goes on beside the test.
type dialed struct {
	conn *pgx.Conn
	err  error
}

func (g *guarded) dialing(token fence.Token) <-chan dialed {
	result := make(chan dialed, 1)
	go func() {
		c, err := g.dial(token)
		result <- dialed{c, err}
	}()
	return result
}

// atEveryPoint runs a story for every point at which the admission of a token through one guard can stand still, while
// another guard of the same database goes on. There is a session under token 3 at first, so that every step is taken.
func atEveryPoint(t *testing.T, token fence.Token, story func(t *testing.T, going *guarded, paused <-chan dialed, resume func())) {
	points := 0
	for at := 0; ; at++ {
		stop := gateAt(at)
		going := fenced(t)
		going.open(3)
		standing := going.another(setup{wrap: stop.wrap, Options: Options{
			Admission: &marks.Admission{Authority: marks.Unverified{}, Timeout: time.Minute}, // the story takes its time
		}})
		result := standing.dialing(token)
		select {
		case <-stop.reached:
		case d := <-result:
			if d.err != nil {
				t.Fatal(d.err)
			}
			if points < 10 { // register, raise, register, revoke, register
				t.Errorf("only %d points were seen", points)
			}
			return
		}
		points++
		t.Run(fmt.Sprintf("%d %s", at, stop.where), func(t *testing.T) {
			resume := sync.OnceFunc(func() { close(stop.open) })
			defer resume()
			story(t, going, result, resume)
		})
		going.hangUp()
		standing.hangUp()
		going.Stop()
		standing.Stop()
	}
}

func TestAnOlderLeaderWhoseGuardStandsStillAnywhereWritesNothingOnceTheNewerIsReady(t *testing.T) {
	atEveryPoint(t, 5, func(t *testing.T, going *guarded, paused <-chan dialed, resume func()) {
		fresh := going.open(7)
		going.exec(fresh, "insert into ledger (token) values (7)")
		resume()
		late := <-paused
		err := late.err
		if err == nil {
			_, err = late.conn.Exec(t.Context(), "insert into ledger (token) values (5)")
		}
		wantCode(t, err, "RF001")
		going.exec(fresh, "insert into ledger (token) values (7)")
		if n := going.count("select count(*) from ledger where token = 5"); n != 0 {
			t.Errorf("%d stale writes", n)
		}
	})
}

func TestANewerLeaderWhoseGuardStandsStillAnywhereIsReadyOnlyWhenNoOlderOneIsLeft(t *testing.T) {
	atEveryPoint(t, 7, func(t *testing.T, going *guarded, paused <-chan dialed, resume func()) {
		old, refused := going.dial(5) // late, and let in as long as the mark is not raised
		if refused == nil {
			going.exec(old, "begin")
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
		if n := going.count(`select count(*) from pg_stat_activity a join ringfence.session s using (pid, backend_start) where s.token < 7`); n != 0 {
			t.Errorf("%d older sessions live when the newer is ready", n)
		}
		if refused == nil {
			_, err := old.Exec(t.Context(), "commit")
			wantCode(t, err, "RF001")
		}
		going.exec(late.conn, "insert into ledger (token) values (7)")
		if n := going.count("select count(*) from ledger where token = 5"); n != 0 {
			t.Errorf("%d stale writes", n)
		}
	})
}

func TestAGuardThatStandsStillBetweenTwoStepsOfTheSameTokenDoesNotEndItsOwnSessions(t *testing.T) {
	atEveryPoint(t, 7, func(t *testing.T, going *guarded, paused <-chan dialed, resume func()) {
		same := going.open(7)
		resume()
		late := <-paused
		if late.err != nil {
			t.Fatal(late.err)
		}
		going.exec(same, "insert into ledger (token) values (7)")
		going.exec(late.conn, "insert into ledger (token) values (7)")
	})
}
