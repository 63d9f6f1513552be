package postgres

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/store"
)

// busy holds the table of sessions, as a checkpoint or a slow disk might for a moment, until meanwhile has run: whoever
// wants to read the sessions waits in between. meanwhile works in the same transaction.
func (d database) busy(t *testing.T, call string, start func() error, meanwhile func(holder *pgx.Conn)) error {
	t.Helper()
	holder := d.connect(t, "postgres")
	must(t, holder, "begin")
	must(t, holder, "lock table ringfence.session in access exclusive mode")
	returned := make(chan error, 1)
	go func() { returned <- start() }()
	d.waits(t, call, returned)
	meanwhile(holder)
	must(t, holder, "commit")
	return <-returned
}

// registered is a session that opens, and is recorded under a token, only now.
func (d database) registered(t *testing.T, s *Store, holder *pgx.Conn, token int) store.Session {
	t.Helper()
	app := d.connect(t, "app")
	sess, err := s.Identify(t.Context(), Leg{PID: app.PgConn().PID(), User: "app", Database: d.name, Local: app.PgConn().Conn().LocalAddr()})
	if err != nil {
		t.Fatal(err)
	}
	must(t, holder, "insert into ringfence.session values ('orders', $1, 'zk:a', $2, $3::text::timestamptz)", token, sess.ID, sess.Birth)
	return sess
}

func TestASweepDoesNotForgetASessionThatIsAdmittedMeanwhile(t *testing.T) {
	d := installed(t)
	s := d.open(t, Options{})
	sweeper := d.connect(t, guardRole)
	d.sql(t, "alter function ringfence.sessions() volatile") // it reads what is committed when its wait is over
	err := d.busy(t, "ringfence.sweep",
		func() error {
			_, err := sweeper.Exec(context.WithoutCancel(t.Context()), "select ringfence.sweep()")
			return err
		},
		func(holder *pgx.Conn) { d.registered(t, s, holder, 5) })
	if err != nil {
		t.Fatal(err)
	}
	if n := d.list(t, "select count(*)::text from ringfence.session")[0]; n != "1" {
		t.Errorf("%s sessions are left", n)
	}
}

func TestARevocationDoesNotTakeASessionForGoneThatCameMeanwhile(t *testing.T) {
	d := installed(t)
	s := d.open(t, Options{})
	if _, err := s.Raise(t.Context(), claimed(7)); err != nil {
		t.Fatal(err)
	}
	var late store.Session
	err := d.busy(t, "ringfence.revoke",
		func() error {
			_, err := s.Revoke(context.WithoutCancel(t.Context()), claimed(7))
			return err
		},
		func(holder *pgx.Conn) { late = d.registered(t, s, holder, 5) })
	if err != nil {
		t.Fatal(err)
	}
	if n := d.list(t, "select count(*)::text from pg_stat_activity where pid = $1", late.ID)[0]; n != "0" {
		t.Error("the session lives after a revocation that found it")
	}
}

func TestASweepForgetsTheDeadAndKeepsTheLiving(t *testing.T) {
	d := installed(t)
	s := d.open(t, Options{})
	super := d.connect(t, "postgres")
	living := d.registered(t, s, super, 5)
	must(t, super, "insert into ringfence.session values ('orders', 5, 'zk:a', 999999, now()), ('orders', 5, 'zk:a', $1, now())", living.ID)
	must(t, d.connect(t, guardRole), "select ringfence.sweep()")
	if n := d.list(t, "select count(*)::text from ringfence.session where backend_start = $1::text::timestamptz", living.Birth)[0]; n != "1" {
		t.Error("the living session is forgotten")
	}
	if n := d.list(t, "select count(*)::text from ringfence.session")[0]; n != "1" {
		t.Errorf("%s sessions are left: a pid that is used again is not the same session", n)
	}
}

// Clients of an old leader that come back in a storm, through many guards, must not keep the new one waiting.
func TestAStormOfRegistrationsDoesNotHoldUpARaise(t *testing.T) {
	d := installed(t)
	s := d.open(t, Options{})
	if _, err := s.Raise(t.Context(), claimed(5)); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	storm := make(chan struct{}, 100)
	for range 32 {
		c := d.connect(t, guardRole)
		all.Go(func() {
			for ctx.Err() == nil {
				_, err := c.Exec(context.Background(), "select ringfence.register($1, now(), '{orders}', '{5}', 'zk:a')", c.PgConn().PID())
				if err != nil {
					t.Error(err)
					return
				}
				select {
				case storm <- struct{}{}:
				default:
				}
			}
		})
	}
	for range cap(storm) {
		<-storm
	}
	for token := fence.Token(6); token < 10; token++ {
		bounded, cancel := context.WithTimeout(ctx, 5*time.Second)
		if _, err := s.Raise(bounded, claimed(token)); err != nil {
			t.Errorf("raise to %s: %v", token, err)
		}
		cancel()
	}
	stop()
	all.Wait()
}
