package worker

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/postgres"
	"github.com/ringfence/ringfence/internal/marks/pgmarks"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
	"github.com/ringfence/ringfence/lab/flaw"
	"github.com/ringfence/ringfence/lab/history"
	"github.com/ringfence/ringfence/lab/scenario"
	"github.com/ringfence/ringfence/lab/system"
)

// sqlStage is a Postgres that allows prepared transactions, behind PgBouncer in transaction mode.
type sqlStage struct {
	*testing.T
	ctx context.Context
	url string // of the pooler
	db  *pgx.Conn
}

func newSQLStage(t *testing.T) *sqlStage {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), stageTime)
	t.Cleanup(cancel)
	s := &sqlStage{T: t, ctx: ctx}
	pg, err := servers.StartPostgres(ctx, servers.PostgresOptions{
		Settings: map[string]string{"wal_keep_size": "1GB", "max_prepared_transactions": "10"},
	})
	s.must(err)
	t.Cleanup(func() { _ = pg.Close() })
	admin := pg.URL("postgres", "postgres")
	s.must(system.Exec(ctx, admin, "create role warden login", "create role app login"))
	s.must(postgres.Install(ctx, admin))
	_, err = pgmarks.Roles{Guard: "warden", Leaders: []string{"app"}}.Install(ctx, admin)
	s.must(err)
	s.must(system.Exec(ctx, admin, system.Tables, system.SQLTables))
	pooler := serverstest.PgBouncer(t, pg, servers.PgBouncerOptions{User: "app", Mode: "transaction"})
	s.url = pooler.URL("app", "postgres")
	s.db, err = pgx.Connect(ctx, admin)
	s.must(err)
	t.Cleanup(func() { _ = s.db.Close(context.WithoutCancel(ctx)) })
	return s
}

func (s *sqlStage) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// leader is a worker's term, and what it writes with.
type leader struct {
	*sqlStage
	w      *worker
	term   *fence.Term
	ledger ledgerSQL
	inside chan history.Event
}

// leads returns a worker that has won a term.
func (s *sqlStage) leads(name string, bug flaw.Name) *leader {
	s.Helper()
	l := &leader{sqlStage: s, inside: make(chan history.Event, 1)}
	l.w = newWorker(Config{
		Name: name, Route: scenario.SQL, Kind: scenario.Ledger, Session: time.Minute,
		Deadline:    10 * time.Second,
		Coordinator: s.url, Postgres: s.url, Flaw: bug,
	}, func(e history.Event) {
		if isInside(e) {
			l.inside <- e
		}
	}, newSignals())
	pool, err := l.w.pool("LAB_COORDINATOR", s.url, s.ctx)
	s.must(err)
	s.Cleanup(pool.Close)
	l.term, err = (&sqlElector{w: l.w, pool: pool}).Campaign(s.ctx, scenario.Resource, name)
	s.must(err)
	l.ledger, err = l.w.ledgerSQL(l.term.Claim())
	s.must(err)
	s.Cleanup(l.ledger.close)
	return l
}

// writes does one transaction.
func (l *leader) writes(op string, kind shape, level pgx.TxIsoLevel, stops bool) result {
	return (&attempt{
		ledgerSQL: l.ledger, ctx: l.ctx, op: op, token: int64(l.term.Token()), stops: stops,
	}).transact(kind, level)
}

// has returns whether the ledger has an entry.
func (s *sqlStage) has(op string) (there bool) {
	s.Helper()
	s.must(s.db.QueryRow(s.ctx, "select exists (select from ledger where op = $1)", op).Scan(&there))
	return there
}

// A transaction of each shape is stopped before COMMIT, and goes on once the next term has begun.
func TestATransactionOfEachShapeIsFenced(t *testing.T) {
	s := newSQLStage(t)
	for _, bug := range []flaw.Name{"", flaw.ByHand} {
		for i, kind := range shapes {
			level := levels[i%len(levels)]
			t.Run(fmt.Sprintf("%s/%s/%s", bug, kind.name, level), func(t *testing.T) {
				s := &sqlStage{t, s.ctx, s.url, s.db}
				op := strings.ReplaceAll(strings.ToLower(kind.name), " ", "") + string(bug)
				a := s.leads("worker-1", bug)
				if r := a.writes(op+".first", kind, level, false); r.outcome != history.OK ||
					!s.has(op+".first") {
					t.Fatalf("the leader's write: %s %s", r.outcome, r.text())
				}
				done := make(chan result, 1)
				go func() { done <- a.writes(op+".late", kind, level, true) }()
				<-a.inside
				s.must(a.term.Resign(s.ctx))
				b := s.leads("worker-2", bug)
				if r := b.writes(op+".next", kind, level, false); r.outcome != history.OK {
					t.Fatalf("the successor's write: %s %s", r.outcome, r.text())
				}
				a.w.signals.resume()
				late := <-done
				unfenced := bug != ""
				if got := late.outcome == history.OK; got != unfenced || s.has(op+".late") != unfenced {
					t.Errorf("the stopped transaction: %s %s; it is in the ledger: %t", late.outcome, late.text(),
						s.has(op+".late"))
				}
				again := a.writes(op+".again", kind, level, false)
				if again.outcome != history.Stale || !unfenced && again.code != "RF001" || s.has(op+".again") {
					t.Errorf("the next one: %s %s", again.outcome, again.text())
				}
				s.must(b.term.Resign(s.ctx))
			})
		}
	}
}

func TestLeadersWithOneTokenAfterTheOtherAreStoppedInEachShape(t *testing.T) {
	one, two := newChoices(Config{Name: "worker-1", Seed: 5}),
		newChoices(Config{Name: "worker-2", Seed: 5})
	seen := map[string]bool{}
	for token := fence.Token(7); token < 7+fence.Token(len(shapes)); token += 2 {
		a, _ := one.draw(true, token)
		b, _ := two.draw(true, token+1)
		seen[a.name], seen[b.name] = true, true
	}
	if len(seen) != len(shapes) {
		t.Errorf("only in %v", seen)
	}
}

func TestAStopIsPutOffUnlessItIsOver(t *testing.T) {
	s := newSignals()
	s.stopInside()
	if !s.stopRequested() {
		t.Fatal("no stop")
	}
	if s.stopLater(); !s.stopRequested() {
		t.Error("a transaction that failed has used up the stop")
	}
	s.resume()
	if s.stopLater(); s.stopRequested() {
		t.Error("it stops for nobody")
	}
}
