package pgmarks

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/test/must"
)

// busy locks the table of sessions, as a checkpoint or a slow disk might for a moment, until
// meanwhile has run: a call that reads the sessions waits in the middle. meanwhile runs in the same
// transaction.
func (d database) busy(
	t *testing.T, call string, start func() error, meanwhile func(holder *pgx.Conn),
) error {
	t.Helper()
	holder := d.connect(t, "postgres")
	execute(t, holder, "begin")
	execute(t, holder, "lock table ringfence_private.session in access exclusive mode")
	returned := make(chan error, 1)
	go func() { returned <- start() }()
	d.waits(t, call, returned)
	meanwhile(holder)
	execute(t, holder, "commit")
	return <-returned
}

// registered opens a session and records it under a token.
func (d database) registered(t *testing.T, s *Store, holder *pgx.Conn, token int) marks.SessionID {
	t.Helper()
	app := d.connect(t, "app")
	sess, err := identify(t.Context(), app)
	must.Succeed(t, err)
	const insert = `insert into ringfence_private.session
	    values ('orders', $1, 'zk:a', $2, $3::text::timestamptz)`
	execute(t, holder, insert, token, sess.ID, sess.Birth)
	return sess
}

func TestASweepKeepsTheRecordOfASessionThatIsAdmittedMeanwhile(t *testing.T) {
	t.Parallel()
	d := installed(t)
	s := d.open(t, Options{})
	sweeper := d.connect(t, guardRole)
	// so that it reads what is committed when its wait ends
	d.sql(t, "alter function ringfence.sessions() volatile")
	err := d.busy(t, "ringfence.sweep",
		func() error {
			_, err := sweeper.Exec(context.WithoutCancel(t.Context()), "select ringfence.sweep()")
			return err
		},
		func(holder *pgx.Conn) { d.registered(t, s, holder, 5) })
	must.Succeed(t, err)
	if n := d.list(t, "select count(*)::text from ringfence_private.session")[0]; n != "1" {
		t.Errorf("%s sessions are left", n)
	}
}

func TestARevocationEndsASessionThatIsRecordedWhileItRuns(t *testing.T) {
	t.Parallel()
	d := installed(t)
	s := d.open(t, Options{})
	_, err := raiseTo(t.Context(), s, claimed(7))
	must.Succeed(t, err)
	var late marks.SessionID
	err = d.busy(t, "ringfence.revoke",
		func() error {
			_, err := s.Revoke(context.WithoutCancel(t.Context()), marks.SessionID{}, claimed(7))
			return err
		},
		func(holder *pgx.Conn) { late = d.registered(t, s, holder, 5) })
	must.Succeed(t, err)
	if n := d.list(t, "select count(*)::text from pg_stat_activity where pid = $1",
		late.ID)[0]; n != "0" {
		t.Error("the session is still alive after the revocation")
	}
}

func TestASweepRemovesOnlyTheRecordsOfEndedSessions(t *testing.T) {
	t.Parallel()
	d := installed(t)
	s := d.open(t, Options{})
	super := d.connect(t, "postgres")
	living := d.registered(t, s, super, 5)
	execute(t, super, `insert into ringfence_private.session
	    values ('orders', 5, 'zk:a', 999999, now()), ('orders', 5, 'zk:a', $1, now())`, living.ID)
	execute(t, d.connect(t, guardRole), "select ringfence.sweep()")
	const born = `select count(*)::text from ringfence_private.session
	    where backend_start = $1::text::timestamptz`
	if n := d.list(t, born, living.Birth)[0]; n != "1" {
		t.Error("the record of the living session was removed")
	}
	if n := d.list(t, "select count(*)::text from ringfence_private.session")[0]; n != "1" {
		t.Errorf("%s records are left: a reused pid is another session", n)
	}
}

// A restart of the server, or an administrator, ends every control connection at once, and the pool
// does not notice.
func TestCallersDoNotNoticeThatControlConnectionsWereEnded(t *testing.T) {
	t.Parallel()
	d := installed(t)
	s := d.open(t, Options{})
	d.busyPool(t, s)
	d.sql(t,
		"select pg_terminate_backend(pid) from pg_stat_activity "+
			"where application_name = 'ringfence' and datname = current_database()")
	for range 4 {
		if _, err := s.Marks(t.Context()); err != nil {
			t.Errorf("got %v", err)
		}
	}
}

// busyPool makes the store open all connections of its pool.
func (d database) busyPool(t *testing.T, s *Store) {
	t.Helper()
	holder := d.connect(t, "postgres")
	execute(t, holder, "begin")
	execute(t, holder, "lock table ringfence_private.mark in access exclusive mode")
	results := make(chan error, 4)
	for range cap(results) {
		go func() {
			_, err := s.Marks(context.WithoutCancel(t.Context()))
			results <- err
		}()
	}
	const waiting = `select count(*)::text from pg_stat_activity where wait_event_type = 'Lock'
	    and application_name = 'ringfence' and datname = current_database()`
	for d.list(t, waiting)[0] != "4" {
		if len(results) > 0 {
			t.Fatal(<-results)
		}
	}
	execute(t, holder, "commit")
	for range cap(results) {
		must.Succeed(t, <-results)
	}
}

// A raise that has found no mark is delayed before it writes one, and a newer raise comes in
// between.
func TestARaiseThatFoundNoMarkDoesNotOverwriteANewerOne(t *testing.T) {
	t.Parallel()
	d := installed(t)
	s := d.open(t, Options{})
	holder := d.connect(t, "postgres")
	execute(t, holder, "begin")
	execute(t, holder, "insert into ringfence_private.mark (resource, token, issuer, holder, server, "+
		"pass) values ('orders', 7, 'zk:a', 'newer', 'x', '')")
	raised := make(chan error, 1)
	go func() {
		_, err := raiseTo(context.WithoutCancel(t.Context()), s, claimed(5))
		raised <- err
	}()
	d.waits(t, "ringfence.raise", raised)
	execute(t, holder, "commit")
	if err := <-raised; !errors.Is(err, fence.ErrStale) {
		t.Errorf("got %v", err)
	}
	if token := d.list(t, "select token::text from ringfence_private.mark")[0]; token != "7" {
		t.Errorf("the mark is %s", token)
	}
}
