package pgmarks

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/test/must"
)

var levels = []pgx.TxIsoLevel{pgx.ReadUncommitted, pgx.ReadCommitted,
	pgx.RepeatableRead, pgx.Serializable}

// snapshots are the levels at which a transaction keeps the snapshot of its first statement.
var snapshots = []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable}

func at(level pgx.TxIsoLevel) pgx.TxOptions { return pgx.TxOptions{IsoLevel: level} }

// realm is a database with a table to write to. token is the newest token of its leaders.
type realm struct {
	database
	s     *Store
	token fence.Token
}

// led returns a fresh realm with the schema installed.
func led(t *testing.T) *realm {
	t.Helper()
	d := installed(t)
	d.sql(t, "create table entry (token bigint); grant all on entry to app")
	return &realm{database: d, s: d.open(t, Options{})}
}

// next returns the claim of the next leader.
func (r *realm) next() fence.Claim {
	r.token++
	return claimed(r.token)
}

// lead makes a claim the mark and opens the gate for its transactions; it fails the test when that
// takes long.
func (r *realm) lead(t testing.TB, c fence.Claim) fence.Claim {
	t.Helper()
	must.Succeed(t, takeOver(t.Context(), r.s, c))
	return c
}

// takeOver does what a new leader without a guard does.
func takeOver(ctx context.Context, s *Store, c fence.Claim) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	if _, err := raiseTo(ctx, s, c); err != nil {
		return err
	}
	_, err := s.Revoke(ctx, marks.SessionID{}, c)
	return err
}

// enters begins a transaction of the application under a claim, and writes in it.
func (d database) enters(t testing.TB, c fence.Claim, o pgx.TxOptions) (*pgx.Conn, pgx.Tx) {
	t.Helper()
	conn := d.connect(t, "app")
	return conn, d.transact(t, conn, c, o)
}

// transact begins a transaction under a claim, and writes in it.
func (d database) transact(t testing.TB, db Beginner, c fence.Claim, o pgx.TxOptions) pgx.Tx {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	tx, err := Begin(ctx, db, c, o)
	must.Succeed(t, err)
	_, err = tx.Exec(ctx, "insert into entry values ($1)", int64(c.Token))
	must.Succeed(t, err)
	return tx
}

// try begins a transaction under a claim, and rolls it back if it could begin.
func try(t *testing.T, db Beginner, c fence.Claim, level pgx.TxIsoLevel) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	tx, err := Begin(ctx, db, c, at(level))
	if err == nil {
		err = tx.Rollback(ctx)
	}
	return err
}

// landed returns how many rows were committed under a claim.
func (d database) landed(t testing.TB, c fence.Claim) string {
	t.Helper()
	return d.list(t, "select count(*)::text from entry where token = $1", int64(c.Token))[0]
}

// holders returns how many advisory locks are held or awaited: each transaction that enters takes
// one.
func (d database) holders(t testing.TB) string {
	t.Helper()
	return d.list(t,
		"select count(*)::text from pg_locks where locktype = 'advisory' "+
			"and database = (select oid from pg_database where datname = current_database())")[0]
}

func sqlstate(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

// refused checks that a transaction was refused, and how. current says that its snapshot includes
// the raise. With an older snapshot the error is 40001, try again.
func refused(t *testing.T, err error, level pgx.TxIsoLevel, current bool) {
	t.Helper()
	want := "RF001"
	if !current && slices.Contains(snapshots, level) {
		want = "40001"
	}
	if got := sqlstate(err); got != want || (want == "RF001") != errors.Is(err, fence.ErrStale) {
		t.Errorf("%s: got %s (%v), want %s", level, got, err, want)
	}
}

func TestATransactionFromBeforeARaiseCannotEnterAfterIt(t *testing.T) {
	t.Parallel()
	d := led(t)
	for _, level := range levels {
		for _, wrote := range []bool{false, true} {
			old := d.lead(t, d.next())
			conn := d.connect(t, "app")
			tx, err := conn.BeginTx(t.Context(), at(level))
			must.Succeed(t, err)
			if wrote { // its snapshot is from before the raise
				execute(t, conn, "insert into entry values ($1)", int64(old.Token))
			}
			d.lead(t, d.next())
			refused(t, Enter(t.Context(), tx, old), level, !wrote)
			_ = tx.Commit(t.Context())
			if n := d.landed(t, old); n != "0" {
				t.Errorf("%s: the transaction was committed", level)
			}
		}
	}
}

// The critical moment is between the first check and the locks. A superuser who locks the table
// extends it.
func TestATransactionThatWaitedForItsLocksSeesARaiseThatCameMeanwhile(t *testing.T) {
	t.Parallel()
	d := led(t)
	locker := d.connect(t, "postgres")
	for _, level := range levels {
		old := d.lead(t, d.next())
		execute(t, locker, "begin")
		execute(t, locker, "lock table ringfence_private.entered in access exclusive mode")
		begun := d.begins(t, old, level)
		d.waits(t, "ringfence.enter", begun)
		_, err := raiseTo(t.Context(), d.s, d.next())
		must.Succeed(t, err)
		execute(t, locker, "rollback")
		refused(t, <-begun, level, false)
		if n := d.holders(t); n != "0" {
			t.Errorf("%s: a refused transaction holds %s advisory locks", level, n)
		}
	}
}

// begins calls Begin in the background.
func (d database) begins(t *testing.T, c fence.Claim, level pgx.TxIsoLevel) <-chan error {
	t.Helper()
	conn, begun := d.connect(t, "app"), make(chan error, 1)
	go func() {
		_, err := Begin(context.WithoutCancel(t.Context()), conn, c, at(level))
		begun <- err
	}()
	return begun
}

// raising starts a raise and leaves its transaction open.
func (d database) raising(t *testing.T, c fence.Claim) *pgx.Conn {
	t.Helper()
	conn := d.connect(t, guardRole)
	execute(t, conn, "begin")
	execute(t, conn,
		"select ringfence.raise($1, $2, $3, 'host', '', (select basis from ringfence.look($1)))",
		c.Resource, int64(c.Token), c.Issuer)
	return conn
}

func TestATransactionThatEntersDuringARaiseIsEndedByIt(t *testing.T) {
	t.Parallel()
	d := led(t)
	old := d.lead(t, d.next())
	newer := d.next()
	raising := d.raising(t, newer)
	for _, level := range []pgx.TxIsoLevel{pgx.ReadUncommitted, pgx.ReadCommitted} {
		d.enters(t, old, at(level))
	}
	execute(t, raising, "commit")
	d.lead(t, newer)
	if n := d.holders(t); n != "0" {
		t.Error("a transaction is still inside after the revocation")
	}
}

func TestAnOldSnapshotWaitsForAnOpenRaise(t *testing.T) {
	t.Parallel()
	d := led(t)
	for _, level := range snapshots {
		for end, want := range map[string]string{"commit": "40001", "rollback": ""} {
			old := d.lead(t, d.next())
			raising := d.raising(t, d.next())
			begun := d.begins(t, old, level)
			d.waits(t, "ringfence.enter", begun)
			execute(t, raising, end)
			if err := <-begun; sqlstate(err) != want || (want == "") != (err == nil) {
				t.Errorf("%s, %s: got %v", level, end, err)
			}
		}
	}
}

// A raise that was rolled back leaves its transaction id on the gate's row, so transactions that
// enter need the row's lock to tell. They must not keep the lock: the next raise would have to wait
// for them instead of ending them.
func TestAfterARaiseThatWasRolledBackTransactionsEnterAndTheNextRaiseEndsThem(t *testing.T) {
	t.Parallel()
	d := led(t)
	for _, level := range levels {
		old := d.lead(t, d.next())
		execute(t, d.raising(t, d.next()), "rollback")
		_, tx := d.enters(t, old, at(level))
		newer := d.next()
		d.lead(t, newer) // which must not take long
		if err := tx.Commit(t.Context()); err == nil || d.landed(t, old) != "0" {
			t.Errorf("%s: the transaction was committed", level)
		}
	}
}

func TestATransactionCannotPassFromOneTermToTheNext(t *testing.T) {
	t.Parallel()
	d := led(t)
	for _, level := range levels {
		old, newer := d.lead(t, d.next()), d.next()
		_, tx := d.enters(t, old, at(level))
		_, err := raiseTo(t.Context(), d.s, newer)
		must.Succeed(t, err)
		inner, err := tx.Begin(t.Context())
		must.Succeed(t, err)
		if err := Enter(t.Context(), inner, newer); err == nil {
			t.Errorf("%s: a transaction of the older term has entered under the newer one", level)
		}
		must.Succeed(t, inner.Rollback(t.Context()))
		d.lead(t, newer)
		if err := tx.Commit(t.Context()); err == nil || d.landed(t, old) != "0" {
			t.Errorf("%s: the transaction was committed: %v", level, err)
		}
	}
}

// A refused attempt must not look like a transaction that is inside: an old leader retries all the
// time, and a new leader would wait for it and end its backend.
func TestAnOldLeaderThatRetriesIsRefusedAndItsBackendIsNotEnded(t *testing.T) {
	t.Parallel()
	d := led(t)
	old := d.lead(t, d.next())
	d.lead(t, d.next())
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var trying sync.WaitGroup
	for i := range 16 {
		conn, level := d.connect(t, "app"), levels[i%len(levels)]
		trying.Go(func() {
			for ctx.Err() == nil {
				if err := try(t, conn, old, level); !errors.Is(err, fence.ErrStale) {
					t.Errorf("%s: %v", level, err)
					return
				}
			}
		})
	}
	for range 20 {
		d.lead(t, d.next())
	}
	stop()
	trying.Wait()
}
