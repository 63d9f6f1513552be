package pgmarks

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/poll"
)

// What ends a run of the server, or takes a gate away, and what comes of it. setback_test.go has
// restarts, snapshots, base backups, dumps and copies by CREATE DATABASE.

const serverStarted = "select pg_postmaster_start_time()::text"

// writtenHere makes the row of a gate look as if it had been written where it is.
const writtenHere = "; update ringfence_private.gate set written = xmin"

// The clocks of the two servers have shown the same microsecond at their starts, so only the
// unlogged table shows the promotion.
func TestAPromotionWithoutARestartConfirmsNothing(t *testing.T) {
	t.Parallel()
	r, _ := own(t)
	old := r.lead(t, claimed(5))
	standby, err := r.pg.StartStandby(t.Context(), "standby")
	must.Succeed(t, err)
	t.Cleanup(func() { _ = standby.Close() })
	s := &realm{database: database{standby, "postgres"}}
	started := s.list(t, serverStarted)[0]
	r.sql(t, "update ringfence_private.gate set started = '"+started+"'"+writtenHere)
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
	_, err = s.opens(t, leader(7), claimed(7))
	must.Succeed(t, err)
	s.outside(t, old, fence.ErrStale)
	s.enters(t, claimed(7), pgx.TxOptions{})
}

// A backend that crashes takes every session with it, and the server goes on without a restart.
// Nobody who connects after that has to be ended.
func TestACrashOfABackendConfirmsNothingAndEndsNobodyElse(t *testing.T) {
	t.Parallel()
	r, _ := own(t)
	c := r.lead(t, claimed(5))
	conn, step := r.admitted(t, c)
	if step != marks.Admitted {
		t.Fatalf("step %v", step)
	}
	started := r.list(t, serverStarted)[0]
	must.Succeed(t, syscall.Kill(int(conn.PgConn().PID()), syscall.SIGKILL))
	// until the server has noticed the crash, and recovered
	if !poll.Until(time.Minute, func() bool { return !r.standing(t) }) {
		t.Fatal("the crash has not taken the gate")
	}
	if now := r.list(t, serverStarted)[0]; now != started {
		t.Fatalf("the server was restarted: %s, %s", started, now)
	}
	r.outside(t, c, fence.ErrNotRaised)
	stranger := r.connect(t, "app")
	_, err := r.opens(t, leader(5), c)
	must.Succeed(t, err)
	r.enters(t, c, pgx.TxOptions{})
	execute(t, stranger, "select")
}

// standing returns whether a gate counts; true while the server does not answer.
func (r *realm) standing(t *testing.T) bool {
	c, err := pgx.Connect(t.Context(), r.url("postgres"))
	if err != nil {
		return true
	}
	defer c.Close(t.Context())
	is := true
	_ = c.QueryRow(t.Context(), "select exists (select from ringfence_private.standing)").Scan(&is)
	return is
}

// Somebody takes the gate away, or brings it back from a dump, while the server runs. Sessions and
// transactions are alive then, and a newer leader ends them.
func TestAGateThatIsLostWhileTheServerRunsConfirmsNothingAndForgetsNobody(t *testing.T) {
	t.Parallel()
	for name, loses := range map[string]string{
		"no row":  "delete from ringfence_private.gate",
		"emptied": "truncate ringfence_private.gate",
		"a copied row": "create table kept as table ringfence_private.gate; delete from " +
			"ringfence_private.gate; insert into ringfence_private.gate table kept",
		"another start": "update ringfence_private.gate set started = started - interval '1 " +
			"microsecond'" + writtenHere,
		"another database": "update ringfence_private.gate set place = 'base/1/1'" + writtenHere,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := led(t)
			old := r.lead(t, claimed(5))
			session, step := r.admitted(t, old)
			if step != marks.Admitted {
				t.Fatalf("step %v", step)
			}
			inside := func() error { return errors.New("nobody is inside") }
			if name != "emptied" { // TRUNCATE would wait for it
				_, tx := r.enters(t, old, pgx.TxOptions{})
				inside = func() error { return tx.Commit(t.Context()) }
			}
			stranger := r.connect(t, "app")
			before, err := pgx.Connect(t.Context(), r.url("app"))
			must.Succeed(t, err)
			defer before.Close(context.WithoutCancel(t.Context()))
			execute(t, before, "begin isolation level repeatable read")
			execute(t, before, "select") // takes the snapshot
			r.sql(t, loses)
			r.outside(t, old, fence.ErrNotRaised)
			_, err = r.opens(t, leader(7), claimed(7))
			must.Succeed(t, err)
			if session.Ping(t.Context()) == nil {
				t.Error("a session of the older leader is still alive")
			}
			if inside() == nil {
				t.Error("a transaction of the older leader was committed")
			}
			execute(t, stranger, "select")
			r.outside(t, old, fence.ErrStale)
			if _, err := before.Exec(t.Context(), enterQuery(old)); err == nil {
				t.Error("a transaction with an old snapshot has entered under the older token")
			}
			r.enters(t, claimed(7), pgx.TxOptions{})
		})
	}
}
