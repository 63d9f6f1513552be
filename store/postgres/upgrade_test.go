package postgres

import (
	"context"
	_ "embed"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/store"
)

// version1 is what guard install --print has printed before transactions were fenced.
//
//go:embed testdata/version1.sql
var version1 string

// older is a database of version 1 with an older program's control connection.
func older(t *testing.T) (*realm, *pgx.Conn) {
	t.Helper()
	d := bare(t)
	d.sql(t, version1)
	d.sql(t, "create table entry (token bigint); grant all on entry to app")
	control := d.connect(t, guardRole)
	must(t, control, "select * from ringfence.raise('orders', 5, 'zk:a', 'host')")
	return &realm{database: d, token: 5}, control
}

func (r *realm) upgrade(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := Install(ctx, r.url("postgres"), guardRole); err != nil {
		t.Fatal(err)
	}
	r.s = r.open(t, Options{})
}

func TestAnUpgradeKeepsMarkAndSessionsAndLetsTransactionsInAfterARaise(t *testing.T) {
	d, control := older(t)
	session := d.connect(t, "app")
	const register = "select step from ringfence.register($1, (select backend_start from pg_stat_activity where pid = $1), '{orders}', $2, 'zk:a')"
	const revoke = "select current, gone, remaining, blocked from ringfence.revoke('orders', $1, 'zk:a', true)"
	must(t, control, register, int64(session.PgConn().PID()), []int64{5})
	must(t, control, revoke, 5)
	d.upgrade(t)

	if marks, err := d.s.Marks(t.Context()); err != nil || len(marks) != 1 || marks[0].Token != 5 || marks[0].Sessions != 1 {
		t.Errorf("marks after the upgrade: %+v, %v", marks, err)
	}
	d.outside(t, claimed(5), fence.ErrNotLeader)
	must(t, control, register, int64(session.PgConn().PID()), []int64{5}) // what the older program has prepared still works
	must(t, control, revoke, 5)
	d.lead(t, claimed(5))
	d.enters(t, claimed(5), pgx.TxOptions{})
	must(t, session, "select")
	newer := d.lead(t, d.next())
	if session.Ping(t.Context()) == nil || d.holders(t) != "0" {
		t.Error("a session or transaction of before the raise lives")
	}
	d.enters(t, newer, pgx.TxOptions{})
}

// A function that runs while it is replaced runs on as it was: such a raise knows no gate.
func TestAfterARaiseThatAnUpgradeHasOvertakenNobodyIsLetInBesideOlderTransactions(t *testing.T) {
	d, control := older(t)
	holder, raised := d.connect(t, "postgres"), make(chan error, 1)
	must(t, holder, "begin")
	must(t, holder, "select from ringfence.mark for no key update")
	go func() {
		_, err := control.Exec(context.WithoutCancel(t.Context()), "select * from ringfence.raise('orders', 7, 'zk:a', 'host')")
		raised <- err
	}()
	d.waits(t, "ringfence.raise", raised)
	d.upgrade(t)
	must(t, holder, "update ringfence.gate set open = true") // as it was, had the new program led in between
	must(t, holder, "commit")
	if err := <-raised; err != nil {
		t.Fatal(err)
	}
	_, tx := d.enters(t, claimed(5), pgx.TxOptions{})
	if _, step := d.admitted(t, claimed(7)); step != store.MustRaise {
		t.Errorf("a session beside an older transaction: step %v", step)
	}
	d.lead(t, claimed(7))
	if err := tx.Commit(t.Context()); err == nil || d.landed(t, claimed(5)) != "0" {
		t.Errorf("the older transaction has landed: %v", err)
	}
	d.outside(t, claimed(5), fence.ErrStale)
	d.enters(t, claimed(7), pgx.TxOptions{})
}
