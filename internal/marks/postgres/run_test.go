package postgres

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
)

// What ends a run, and what comes of it. setback_test.go has restarts, snapshots, base backups, dumps
// and copies by CREATE DATABASE.

const serverStarted = "select pg_postmaster_start_time()::text"

// writtenHere makes the row of ringfence_private.boot look as if it had been written where it is.
const writtenHere = "; update ringfence_private.boot set written = xmin"

// The clocks of the two servers have shown the same microsecond at their starts, so only the unlogged
// table shows the promotion.
func TestAPromotionWithoutARestartConfirmsNothing(t *testing.T) {
	r, _ := own(t)
	old := r.lead(t, claimed(5))
	standby, err := r.pg.StartStandby(t.Context(), "standby")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = standby.Close() })
	s := &realm{database: database{standby, "postgres"}}
	started := s.list(t, serverStarted)[0]
	r.sql(t, "update ringfence_private.boot set started = '"+started+"'"+writtenHere)
	r.sql(t, "create table shipped ()")
	s.until(t, "select (to_regclass('shipped') is not null)::text")
	if _, err := s.connect(t, "app").Exec(t.Context(), enterQuery(old)); err == nil {
		t.Error("a transaction enters on a standby")
	}
	r.s.Close()
	if err := r.pg.Kill(); err != nil { // it takes its last raise with it
		t.Fatal(err)
	}
	s.sql(t, "select pg_promote(true, 60)")
	if now := s.list(t, serverStarted)[0]; now != started {
		t.Fatalf("the standby was restarted: %s, %s", started, now)
	}

	s.outside(t, old, fence.ErrNotRaised)
	s.s = s.open(t, Options{})
	found, err := s.s.Marks(t.Context())
	if err != nil || len(found) != 1 || found[0].Confirmed {
		t.Errorf("marks after the promotion: %+v, %v", found, err)
	}
	s.outside(t, old, fence.ErrNotRaised)
	if _, err := s.opens(t, leader(7), claimed(7)); err != nil {
		t.Fatal(err)
	}
	s.outside(t, old, fence.ErrStale)
	s.enters(t, claimed(7), pgx.TxOptions{})
}

// A backend that crashes takes every session with it, and the server goes on without a restart. Nobody
// who connects after that has to be ended.
func TestACrashOfABackendConfirmsNothingAndEndsNobodyElse(t *testing.T) {
	r, _ := own(t)
	c := r.lead(t, claimed(5))
	conn, step := r.admitted(t, c)
	if step != marks.Admitted {
		t.Fatalf("step %v", step)
	}
	started := r.list(t, serverStarted)[0]
	if err := syscall.Kill(int(conn.PgConn().PID()), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(time.Minute)
	for r.hasRun(t) { // until the server has noticed the crash, and recovered
		if time.Now().After(deadline) {
			t.Fatal("the crash has not ended the run")
		}
	}
	if now := r.list(t, serverStarted)[0]; now != started {
		t.Fatalf("the server was restarted: %s, %s", started, now)
	}
	r.outside(t, c, fence.ErrNotRaised)
	stranger := r.connect(t, "app")
	if _, err := r.opens(t, leader(5), c); err != nil {
		t.Fatal(err)
	}
	r.enters(t, c, pgx.TxOptions{})
	must(t, stranger, "select")
}

// hasRun returns whether a run has begun; true while the server does not answer.
func (r *realm) hasRun(t *testing.T) bool {
	c, err := pgx.Connect(t.Context(), r.url("postgres"))
	if err != nil {
		return true
	}
	defer c.Close(t.Context())
	has := true
	_ = c.QueryRow(t.Context(), "select ringfence.run() is not null").Scan(&has)
	return has
}

// Somebody takes the row of the run away, or brings it back from a dump, while the server runs.
// Sessions are alive then, and stay on the list of a newer leader.
func TestARunThatIsLostWhileTheServerRunsConfirmsNothingAndForgetsNoSession(t *testing.T) {
	for name, loses := range map[string]string{
		"no row":           "delete from ringfence_private.boot",
		"emptied":          "truncate ringfence_private.boot",
		"a copied row":     "create table kept as table ringfence_private.boot; delete from ringfence_private.boot; insert into ringfence_private.boot table kept",
		"another start":    "update ringfence_private.boot set started = started - interval '1 microsecond'" + writtenHere,
		"another database": "update ringfence_private.boot set database = 1" + writtenHere,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := led(t)
			old := r.lead(t, claimed(5))
			session, step := r.admitted(t, old)
			if step != marks.Admitted {
				t.Fatalf("step %v", step)
			}
			stranger := r.connect(t, "app")
			before, err := pgx.Connect(t.Context(), r.url("app"))
			if err != nil {
				t.Fatal(err)
			}
			defer before.Close(context.WithoutCancel(t.Context()))
			must(t, before, "begin isolation level repeatable read")
			must(t, before, "select") // takes the snapshot
			r.sql(t, loses)
			r.outside(t, old, fence.ErrNotRaised)
			if _, err := r.opens(t, leader(7), claimed(7)); err != nil {
				t.Fatal(err)
			}
			if session.Ping(t.Context()) == nil {
				t.Error("a session of the older leader is still alive")
			}
			must(t, stranger, "select")
			r.outside(t, old, fence.ErrStale)
			if _, err := before.Exec(t.Context(), enterQuery(old)); err == nil {
				t.Error("a transaction with an old snapshot has entered under the older token")
			}
			r.enters(t, claimed(7), pgx.TxOptions{})
		})
	}
}

// Two guards find no run at the same moment.
func TestTwoThatBeginARunBeginTheSame(t *testing.T) {
	r := led(t)
	r.sql(t, "delete from ringfence_private.boot")
	holder := r.connect(t, "postgres")
	must(t, holder, "begin")
	must(t, holder, "lock table ringfence_private.boot in share row exclusive mode")
	type answer struct {
		run string
		err error
	}
	answers := make(chan answer, 2)
	for range cap(answers) {
		c := r.connect(t, guardRole)
		go func() {
			var a answer
			a.err = c.QueryRow(context.WithoutCancel(t.Context()), beginRunSQL).Scan(&a.run)
			answers <- a
		}()
	}
	r.until(t, "select (count(*) = 2)::text from pg_stat_activity where wait_event_type = 'Lock' and query = $1 and datname = current_database()", beginRunSQL)
	must(t, holder, "commit")
	first, second := <-answers, <-answers
	if first.err != nil || second.err != nil || first != second || first.run == "" {
		t.Errorf("%+v, %+v", first, second)
	}
}

// A client's own connection may not write, so it begins no run.
func TestAReadOnlyConnectionIsIdentifiedAfterTheGuardHasBegunTheRun(t *testing.T) {
	r := led(t)
	r.sql(t, "delete from ringfence_private.boot")
	c := r.connect(t, "app")
	must(t, c, "set default_transaction_read_only = on")
	ask := func() Identity {
		var answer string
		if err := c.QueryRow(t.Context(), IdentityQuery).Scan(&answer); err != nil {
			t.Fatal(err)
		}
		i, err := ParseIdentity(answer)
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	if i := ask(); i.Run != "none" {
		t.Errorf("there is a run: %+v", i)
	}
	if err := r.s.BeginRun(t.Context()); err != nil {
		t.Fatal(err)
	}
	if alive, err := r.s.Alive(t.Context(), ask().Session); err != nil || !alive {
		t.Errorf("the session is not of this run: %t, %v", alive, err)
	}
}
