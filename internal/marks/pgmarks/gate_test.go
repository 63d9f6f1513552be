package pgmarks

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/test/must"
)

// admitted opens a session of an application and tries to register it once.
func (r *realm) admitted(t *testing.T, c fence.Claim) (*pgx.Conn, marks.Next) {
	t.Helper()
	conn := r.connect(t, "app")
	sess, err := identify(t.Context(), conn)
	must.Succeed(t, err)
	st, err := r.s.Register(t.Context(), sess, []fence.Claim{c})
	must.Succeed(t, err)
	return conn, st.Next
}

// outside checks that a claim's transactions are refused, and with which error.
func (d database) outside(t *testing.T, c fence.Claim, why error) {
	t.Helper()
	for _, level := range levels {
		err := try(t, d.connect(t, "app"), c, level)
		var r *fence.Refusal
		if !errors.Is(err, why) || !errors.As(err, &r) || r.Detail == "" || r.Hint == "" {
			t.Errorf("%s: got %v, want %v with a detail and a hint", level, err, why)
		}
	}
}

// revokeOnce calls revoke once and ends no backend.
func (d database) revokeOnce(t *testing.T, c fence.Claim) {
	t.Helper()
	execute(t, d.connect(t, guardRole), "select ringfence.revoke($1, $2, $3, 0)", c.Resource,
		int64(c.Token), c.Issuer)
}

func TestANewLeaderIsKeptOutUntilOlderTransactionsAreGone(t *testing.T) {
	t.Parallel()
	d := led(t)
	old, newer := d.lead(t, d.next()), d.next()
	_, tx := d.enters(t, old, pgx.TxOptions{})
	_, err := raiseTo(t.Context(), d.s, newer)
	must.Succeed(t, err)
	d.outside(t, newer, fence.ErrNotRaised)
	if _, step := d.admitted(t, newer); step != marks.MustRevoke {
		t.Errorf("a session while an older transaction is open: step %v", step)
	}
	d.outside(t, newer, fence.ErrNotRaised) // registering has not opened the gate
	d.revokeOnce(t, newer)
	d.outside(t, newer, fence.ErrNotRaised) // nor has the revocation
	must.Succeed(t, tx.Rollback(t.Context()))
	d.outside(t, newer, fence.ErrNotRaised) // no revocation has seen the end yet
	if _, step := d.admitted(t, newer); step != marks.Admitted {
		t.Errorf("a session when the older transaction has ended: step %v", step)
	}
	d.enters(t, newer, pgx.TxOptions{})
}

func TestASessionOfAnOlderTokenKeepsNewerTransactionsOut(t *testing.T) {
	t.Parallel()
	d := led(t)
	old, newer := d.lead(t, d.next()), d.next()
	session, step := d.admitted(t, old)
	if step != marks.Admitted {
		t.Fatalf("step %v", step)
	}
	_, err := raiseTo(t.Context(), d.s, newer)
	must.Succeed(t, err)
	d.outside(t, newer, fence.ErrNotRaised)
	if _, step := d.admitted(t, newer); step != marks.MustRevoke {
		t.Errorf("a session while an older one lives: step %v", step)
	}
	d.revokeOnce(t, newer)
	d.outside(t, newer, fence.ErrNotRaised)
	d.lead(t, newer)
	if err := session.Ping(t.Context()); err == nil {
		t.Error("the older session is still alive")
	}
	d.enters(t, newer, pgx.TxOptions{})
}

func TestRevokingAgainSparesTheTransactionsOfTheMark(t *testing.T) {
	t.Parallel()
	d := led(t)
	c := d.lead(t, d.next())
	_, tx := d.enters(t, c, pgx.TxOptions{})
	for range 3 {
		d.lead(t, c)
	}
	if _, step := d.admitted(t, c); step != marks.Admitted {
		t.Errorf("a session while a transaction of its own token is open: step %v", step)
	}
	must.Succeed(t, tx.Commit(t.Context()))
}

func TestOnlyTheMarksTokenAndIssuerEnterAndOnlyOnTheRunWhereItWasRaised(t *testing.T) {
	t.Parallel()
	d := led(t)
	c := d.lead(t, d.next())
	above, foreign, unknown := d.next(), c, c
	foreign.Issuer, unknown.Resource = "zk:b", "stock"
	d.outside(t, above, fence.ErrNotRaised)
	d.outside(t, foreign, fence.ErrOtherIssuer)
	d.outside(t, unknown, fence.ErrNotRaised)
	foreign.Token = 0
	d.outside(t, foreign, fence.ErrOtherIssuer)
	if _, err := d.connect(t, "app").Exec(t.Context(),
		"select ringfence.enter('orders', 1, null)"); err == nil {
		t.Error("a claim without an issuer has entered")
	}
	// a failover
	d.sql(t, "update ringfence_private.gate set place = 'another'")
	d.outside(t, c, fence.ErrNotRaised)
	d.lead(t, c)
	d.enters(t, c, pgx.TxOptions{})
}

func TestBeginSaysWhenTheDatabaseIsNotInstalled(t *testing.T) {
	t.Parallel()
	d := bare(t)
	_, err := Begin(t.Context(), d.connect(t, "app"), claimed(1), pgx.TxOptions{})
	if !errors.Is(err, fence.ErrNotInstalled) || !strings.Contains(err.Error(), "guard install") {
		t.Errorf("got %v", err)
	}
}

func TestAnAdoptionEndsOlderTransactionsAndLetsTheNewIssuersEnter(t *testing.T) {
	t.Parallel()
	d := led(t)
	old := d.lead(t, d.lead(t, d.next()))
	_, tx := d.enters(t, old, pgx.TxOptions{})
	adopted := old
	adopted.Issuer = "zk:b"
	_, err := d.s.Adopt(t.Context(), adopted, "me")
	must.Succeed(t, err)
	if err := tx.Commit(t.Context()); err == nil || d.landed(t, old) != "0" {
		t.Errorf("the older transaction was committed: %v", err)
	}
	d.outside(t, old, fence.ErrOtherIssuer)
	d.enters(t, adopted, pgx.TxOptions{})
}

// If the gate's row carries a transaction id in its xmax, every transaction with a snapshot of its
// own must take the row's lock. Only a raise that was rolled back may leave one there.
func TestTheGateIsWrittenAndNeverLocked(t *testing.T) {
	t.Parallel()
	d := led(t)
	c := d.lead(t, d.next())
	untouched := func(when string) {
		t.Helper()
		if x := d.list(t, "select xmax::text from ringfence_private.gate")[0]; x != "0" {
			t.Errorf("%s: xmax of the gate's row is %s", when, x)
		}
	}
	d.lead(t, c)
	untouched("the mark is raised and revoked again")
	session, _ := d.admitted(t, c)
	untouched("a session is admitted")
	_ = session.Close(t.Context())
	// nothing below may wait for anything but the gate
	d.sql(t, "delete from ringfence_private.session")
	c = d.next()
	_, err := raiseTo(t.Context(), d.s, c)
	must.Succeed(t, err)
	const revoke = "select ringfence.revoke('orders', $1, 'zk:a', 1000)"
	first, second, revoked := d.connect(t, guardRole), d.connect(t, guardRole), make(chan error, 1)
	execute(t, first, "begin")
	execute(t, first, revoke, int64(c.Token))
	go func() {
		_, err := second.Exec(context.WithoutCancel(t.Context()), revoke, int64(c.Token))
		revoked <- err
	}()
	d.waits(t, "ringfence.revoke", revoked)
	execute(t, first, "commit")
	must.Report(t, <-revoked)
	untouched("two revocations have opened it at once")
	d.enters(t, c, pgx.TxOptions{})
}

func TestAStaleRevocationEndsNoNewerTransaction(t *testing.T) {
	t.Parallel()
	d := led(t)
	old, newer := d.lead(t, d.next()), d.lead(t, d.next())
	_, tx := d.enters(t, newer, pgx.TxOptions{})
	if _, err := d.s.Revoke(t.Context(), marks.SessionID{}, old); !errors.Is(err, fence.ErrStale) {
		t.Errorf("got %v", err)
	}
	must.Succeed(t, tx.Commit(t.Context()))
}

// A revocation that has found nobody opens the gate only for its own mark, however late it does so.
func TestARevocationThatANewerRaiseOvertakesOpensNoGate(t *testing.T) {
	t.Parallel()
	d := led(t)
	c, newer := d.next(), d.next()
	_, err := raiseTo(t.Context(), d.s, c)
	must.Succeed(t, err)
	raising, revoked := d.raising(t, newer), make(chan error, 1)
	go func() {
		_, err := d.s.Revoke(context.WithoutCancel(t.Context()), marks.SessionID{}, c)
		revoked <- err
	}()
	d.waits(t, "ringfence.revoke", revoked)
	execute(t, raising, "commit")
	<-revoked // it may have finished before the newer raise
	d.outside(t, c, fence.ErrStale)
	d.outside(t, newer, fence.ErrNotRaised)
}

// A revocation that a newer raise overtakes finds no older session, because sessions are listed for
// the current mark only.
func TestARevocationThatANewerRaiseOvertakesDoesNotReportThatNobodyIsLeft(t *testing.T) {
	t.Parallel()
	d := led(t)
	old, c := d.lead(t, d.next()), d.next()
	session, _ := d.admitted(t, old)
	_, err := raiseTo(t.Context(), d.s, c)
	must.Succeed(t, err)
	err = d.busy(t, "ringfence.revoke",
		func() error {
			_, err := d.s.Revoke(context.WithoutCancel(t.Context()), marks.SessionID{}, c)
			return err
		},
		func(*pgx.Conn) {
			_, err := raiseTo(t.Context(), d.s, d.next())
			must.Succeed(t, err)
		})
	if !errors.Is(err, fence.ErrStale) {
		t.Errorf("got %v", err)
	}
	execute(t, session, "select") // only the newest leader's revocation may end it
}

// A revocation that has begun before the raise may have missed a transaction that entered since.
func TestARevocationThatBeganBeforeItsRaiseOpensNoGate(t *testing.T) {
	t.Parallel()
	d := led(t)
	old, newer := d.lead(t, d.next()), d.next()
	err := d.busy(t, "ringfence.revoke",
		func() error {
			_, err := d.s.Revoke(context.WithoutCancel(t.Context()), marks.SessionID{}, newer)
			return err
		},
		func(*pgx.Conn) {
			d.enters(t, old, pgx.TxOptions{})
			_, err := raiseTo(t.Context(), d.s, newer)
			must.Succeed(t, err)
		})
	if err == nil {
		t.Error("the revocation reports that nobody is left")
	}
	d.outside(t, newer, fence.ErrNotRaised)
}

// A revocation has looked who is inside, and waits. Meanwhile another one opens the gate, a
// transaction enters, and the mark is raised to the same token once more, because its candidate is
// known now. The first revocation has not seen that transaction. If it opened the gate, the next
// leader's revocation would not look for it, either.
func TestARevocationOpensNoGateThatWasShutSinceItLooked(t *testing.T) {
	t.Parallel()
	d := led(t)
	d.holdUpOpen(t)
	c := d.next()
	_, err := raiseTo(t.Context(), d.s, c)
	must.Succeed(t, err)
	key, first, revoked := d.connect(t, "postgres"), d.connect(t, guardRole), make(chan error, 1)
	execute(t, key, "select pg_advisory_lock(1)")
	execute(t, first, "set test.held_up = 'yes'")
	const revoke = "select ringfence.revoke('orders', $1, 'zk:a', 1000)"
	go func() {
		_, err := first.Exec(context.WithoutCancel(t.Context()), revoke, int64(c.Token))
		revoked <- err
	}()
	d.waits(t, "ringfence.revoke", revoked)
	d.revokeOnce(t, c)
	_, tx := d.enters(t, c, pgx.TxOptions{})
	again, newer := c, d.next()
	again.Candidate = "b"
	_, err = raiseTo(t.Context(), d.s, again)
	must.Succeed(t, err)
	execute(t, key, "select pg_advisory_unlock(1)")
	must.Succeed(t, <-revoked)
	d.lead(t, newer)
	d.enters(t, newer, pgx.TxOptions{})
	if err := tx.Commit(t.Context()); err == nil || d.landed(t, c) != "0" {
		t.Errorf("a transaction of the older leader was committed while a newer one was inside: %v", err)
	}
}

// holdUpOpen makes ringfence.open wait for the advisory lock 1 in sessions that ask for it.
func (d database) holdUpOpen(t *testing.T) {
	t.Helper()
	d.sql(t, `alter function ringfence.open(text, text) rename to open_at_once;
	    create function ringfence.open(p_resource text, p_pass text) returns void
	    language plpgsql security definer as $$
	    begin
	        if current_setting('test.held_up', true) = 'yes' then
	            perform set_config('lock_timeout', '0', true); -- that of begin_work is short
	            perform pg_advisory_xact_lock(1);
	        end if;
	        perform ringfence.open_at_once(p_resource, p_pass);
	    end $$`)
}

func TestAfterARaiseEveryOlderTransactionIsFoundInside(t *testing.T) {
	t.Parallel()
	d := led(t)
	for _, name := range []fence.Resource{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k",
		"l", "a_longer_name_with_all_that_48_characters_allow1"} {
		c := d.next()
		c.Resource = name
		d.lead(t, c)
		conn, _ := d.enters(t, c, pgx.TxOptions{})
		newer := d.next()
		newer.Resource = name
		_, err := raiseTo(t.Context(), d.s, newer)
		must.Succeed(t, err)
		var pids []uint32
		if err := d.connect(t, guardRole).QueryRow(t.Context(),
			"select pids from ringfence.inside($1)", name).Scan(&pids); err != nil {
			t.Fatal(err)
		}
		if len(pids) != 1 || pids[0] != conn.PgConn().PID() {
			t.Errorf("backends inside %s: %d, want %d", name, pids, conn.PgConn().PID())
		}
	}
}
