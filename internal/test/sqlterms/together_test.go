package sqlterms

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/postgres"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
	"github.com/ringfence/ringfence/store/pgstore"
)

// A leader in Go and a program in SQL stand in one election, and raise one mark.
func TestWhoeverTakesOverFencesTheOthers(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	c := s.connect("app")
	coordinator, err := postgres.Open(s.ctx, s.url("postgres"), postgres.Options{})
	must.Succeed(t, err)
	t.Cleanup(func() { _ = coordinator.Close() })
	raiser := pgstore.NewRaiser(s.url("warden"), coordinator)
	t.Cleanup(raiser.Close)
	pool, err := pgxpool.New(s.ctx, s.url("app"))
	must.Succeed(t, err)
	t.Cleanup(pool.Close)
	leads := func() *fence.Term {
		term, err := coordinator.Campaign(s.ctx, "orders", "in Go")
		if err == nil {
			err = raiser.Raise(s.ctx, term.Claim())
		}
		must.Succeed(t, err)
		return term
	}
	writes := func(term *fence.Term) error {
		tx, err := pgstore.Begin(s.ctx, pool, term.Claim(), pgx.TxOptions{})
		if err == nil {
			_, err = tx.Exec(s.ctx, "insert into written (token) values (2)")
		}
		if err == nil {
			return tx.Commit(s.ctx)
		}
		if tx != nil {
			_ = tx.Rollback(s.ctx)
		}
		return err
	}

	first := leads()
	must.Succeed(t, writes(first))
	if now := s.one(c, "campaign('orders', 'in SQL')"); now.Ready || now.Leader != "in Go" {
		t.Fatalf("beside a leader: %+v", now)
	}
	taken := s.ready(c, "take('orders', 'in SQL', 1)")
	if err := writes(first); !errors.Is(err, fence.ErrStale) {
		t.Errorf("the leader in Go writes: %v", err)
	}
	select {
	case <-first.Context().Done():
	case <-s.ctx.Done():
		t.Fatal("the leader in Go is not deposed")
	}
	must.Report(t, s.writes(c, taken.Pass))
	_, err = c.Exec(s.ctx, "select ringfence.leave($1)", taken.Pass)
	must.Succeed(t, err)
	second := leads()
	s.fails(s.writes(c, taken.Pass), "RF001")
	must.Succeed(t, writes(second))
}

// A session that has attached under an older token is recorded, as one that a guard has admitted.
func TestATakeOverEndsRecordedSessions(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	old, c := s.connect("app"), s.connect("app")
	first := s.ready(c, "take('orders', 'host-1', 1)")
	var attached bool
	err := old.QueryRow(s.ctx, "select ringfence.attach(pg_backend_pid(), 'orders', $1, $2)",
		first.Token, first.Issuer).Scan(&attached)
	if err != nil || !attached {
		t.Fatal(attached, err)
	}
	s.ready(c, "take('orders', 'host-2', 2)")
	if _, err := old.Exec(s.ctx, "select 1"); err == nil {
		t.Error("the session of the older token lives")
	}
}

// Nothing of the contract depends on a session.
func TestThroughAPoolerInTransactionMode(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	at := s.pooler("transaction")
	old, c := s.pooled(at), s.pooled(at)
	first := s.ready(c, "take('orders', 'host-1', 1)")
	inside, err := s.begin(old, "", first.Pass)
	must.Succeed(t, err)
	second := s.ready(c, "take('orders', 'host-2', 2)")
	if err := inside.Commit(s.ctx); err == nil {
		t.Error("the older transaction has committed")
	}
	s.fails(s.writes(s.pooled(at), first.Pass), "RF001") // who tries again
	must.Succeed(t, s.writes(s.pooled(at), second.Pass))
}

// Holders take one resource from each other, and write under each pass as long as they can. Once a
// term may begin, nothing is added to what was written under older tokens.
func TestNothingIsWrittenUnderATokenOnceTheNextTermHasBegun(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	counter := s.connect("postgres")
	var mu sync.Mutex
	before := map[int64]int{} // by token: what was written under older ones when its term began
	older := func(token int64) (n int) {
		mu.Lock()
		defer mu.Unlock()
		if err := counter.QueryRow(s.ctx, "select count(*) from written where token < $1",
			token).Scan(&n); err != nil {
			t.Error(err)
		}
		return n
	}
	enough := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(before) >= 6
	}
	var all sync.WaitGroup
	for i := range 3 {
		c, w := s.connect("app"), s.connect("app")
		all.Go(func() {
			for n := 0; !enough() && s.ctx.Err() == nil; n++ {
				now, err := s.call(c, "take('orders', $1)", fmt.Sprintf("host-%d-%d", i, n))
				for err == nil && !now[0].Ready {
					now, err = s.call(c, "take('orders', $1)", fmt.Sprintf("host-%d-%d", i, n))
				}
				if err != nil {
					c = s.connect("app")
					continue
				}
				n := older(now[0].Token)
				mu.Lock()
				before[now[0].Token] = n
				mu.Unlock()
				for err == nil { // until another one has taken it
					var tx pgx.Tx
					if tx, err = s.begin(w, "", now[0].Pass); err == nil {
						_, err = tx.Exec(s.ctx, "insert into written (token) values ($1)", now[0].Token)
					}
					if err == nil {
						err = tx.Commit(s.ctx)
					}
					if tx != nil {
						_ = tx.Rollback(s.ctx)
					}
					if enough() {
						break
					}
				}
				if w.IsClosed() {
					w = s.connect("app")
				}
			}
		})
	}
	all.Wait()
	for token, n := range before {
		if now := older(token); now != n {
			t.Errorf("%d writes under older tokens when the term of %d began, and %d now", n, token, now)
		}
	}
	if total := older(1 << 62); !enough() || total == 0 {
		t.Errorf("%d terms and %d writes prove little", len(before), total)
	}
}

func TestATermEndsWithTheTimeline(t *testing.T) {
	t.Parallel()
	var own sync.Once
	s := stageAt(t, serverstest.Postgres(t, servers.PostgresOptions{}), &own)
	first := s.ready(s.connect("app"), "take('orders', 'host-1', 1)")
	standby, err := s.pg.StartStandby(s.ctx, "standby")
	must.Succeed(t, err)
	t.Cleanup(func() { _ = standby.Close() })
	old := s.pg
	s.pg = standby
	reading := s.connect("app")
	for _, call := range []string{"take('orders', 'host-1', 1)", "campaign('orders', 'host-1')",
		"enter('" + *first.Pass + "')", "leave('" + *first.Pass + "')"} {
		_, err := reading.Exec(s.ctx, "select ringfence."+call)
		s.fails(err, "25006")
	}
	s.exec(s.connect("postgres"), "select pg_promote(true, 60)")
	c := s.connect("app")
	s.fails(s.writes(c, first.Pass), "RF012")
	again := s.ready(c, "take('orders', 'host-1', 1)")
	if again.Token <= first.Token {
		t.Errorf("%d follows %d", again.Token, first.Token)
	}
	must.Report(t, s.writes(c, again.Pass))
	s.pg = old
}
