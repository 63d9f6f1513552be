package postgres

import (
	"context"
	_ "embed"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
)

// version1 is what guard install --print printed before transactions were fenced.
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

// An upgrade keeps the marks. What an older program admitted is ended once, with everybody else: it asked nobody whether a
// connection leads where the marks are.
func TestAnUpgradeKeepsTheMarksAndEndsEverySessionOnce(t *testing.T) {
	d, control := older(t)
	session, stranger := d.connect(t, "app"), d.connect(t, "app")
	const register = "select step from ringfence.register($1, (select backend_start from pg_stat_activity where pid = $1), '{orders}', $2, 'zk:a')"
	must(t, control, register, int64(session.PgConn().PID()), []int64{5})
	must(t, control, "select current from ringfence.revoke('orders', 5, 'zk:a', true)")
	d.upgrade(t)

	marks, err := d.s.Marks(t.Context())
	if err != nil || len(marks) != 1 || marks[0].Token != 5 || marks[0].Confirmed || !marks[0].Continued {
		t.Errorf("marks after the upgrade: %+v, %v", marks, err)
	}
	d.outside(t, claimed(4), fence.ErrStale)
	d.outside(t, claimed(5), fence.ErrNotLeader)
	if _, err := control.Exec(t.Context(), register, int64(session.PgConn().PID()), []int64{5}); err == nil {
		t.Error("an older program still admits")
	}
	d.lead(t, claimed(5))
	if session.Ping(t.Context()) == nil || stranger.Ping(t.Context()) == nil {
		t.Error("a session of before the upgrade lives")
	}
	d.enters(t, claimed(5), pgx.TxOptions{})
	d.upgrade(t) // again: nothing is lost any more
	d.enters(t, claimed(5), pgx.TxOptions{})
	if marks, err := d.s.Marks(t.Context()); err != nil || !marks[0].Confirmed {
		t.Errorf("marks after another install: %+v, %v", marks, err)
	}
}

// The tables are changed under a lock that a raise of an older program holds up: such a raise comes before the upgrade, or
// fails.
func TestAnUpgradeWaitsForARaiseOfAnOlderProgram(t *testing.T) {
	d, control := older(t)
	must(t, control, "begin")
	must(t, control, "select * from ringfence.raise('orders', 7, 'zk:a', 'host')")
	upgraded := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 20*time.Second)
		defer cancel()
		upgraded <- Install(ctx, d.url("postgres"), guardRole)
	}()
	d.waits(t, "ringfence", upgraded)
	must(t, control, "commit")
	if err := <-upgraded; err != nil {
		t.Fatal(err)
	}
	d.s = d.open(t, Options{})
	d.outside(t, claimed(5), fence.ErrStale)
	d.lead(t, claimed(7))
	d.enters(t, claimed(7), pgx.TxOptions{})
}
