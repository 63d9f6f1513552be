package postgres

import (
	"context"
	_ "embed"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
)

// version1 is the output of guard install --print before there were fenced transactions.
//
//go:embed testdata/version1.sql
var version1 string

// older returns a database of version 1 and the control connection of an older program.
func older(t *testing.T) (*realm, *pgx.Conn) {
	t.Helper()
	d := bare(t)
	d.sql(t, version1)
	d.sql(t, "create table entry (token bigint); grant all on entry to app")
	control := d.connect(t, guardRole)
	must(t, control, "select * from ringfence.raise('orders', 5, 'zk:a', 'host')")
	return &realm{database: d, token: 5}, control
}

// upgrade installs the current version.
func (r *realm) upgrade(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := Install(ctx, r.url("postgres"), guardRole); err != nil {
		t.Fatal(err)
	}
	r.s = r.open(t, Options{})
}

// An upgrade keeps the marks. It ends every session once, with all that an older program admitted:
// that program did not check whether a connection leads to the database with the marks.
func TestAnUpgradeKeepsTheMarksAndEndsEverySessionOnce(t *testing.T) {
	d, control := older(t)
	session, stranger := d.connect(t, "app"), d.connect(t, "app")
	const register = "select step from ringfence.register($1, (select backend_start " +
		"from pg_stat_activity where pid = $1), '{orders}', $2, 'zk:a')"
	must(t, control, register, int64(session.PgConn().PID()), []int64{5})
	must(t, control, "select current from ringfence.revoke('orders', 5, 'zk:a', true)")
	d.upgrade(t)

	marks, err := d.s.Marks(t.Context())
	if err != nil || len(marks) != 1 || marks[0].Token != 5 || marks[0].Confirmed ||
		!marks[0].Continued {
		t.Errorf("marks after the upgrade: %+v, %v", marks, err)
	}
	d.outside(t, claimed(4), fence.ErrStale)
	d.outside(t, claimed(5), fence.ErrNotRaised)
	if _, err := control.Exec(t.Context(), register,
		int64(session.PgConn().PID()), []int64{5}); err == nil {
		t.Error("an older program still admits")
	}
	d.lead(t, claimed(5))
	if session.Ping(t.Context()) == nil || stranger.Ping(t.Context()) == nil {
		t.Error("a session from before the upgrade is still alive")
	}
	d.enters(t, claimed(5), pgx.TxOptions{})
	d.upgrade(t) // the second time nothing is lost
	d.enters(t, claimed(5), pgx.TxOptions{})
	if marks, err := d.s.Marks(t.Context()); err != nil || !marks[0].Confirmed {
		t.Errorf("marks after another install: %+v, %v", marks, err)
	}
}

// The upgrade changes the tables under a lock that conflicts with a raise of an older program: such
// a raise commits before the upgrade, or fails.
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

// version8 is the output of guard install --print before there was a table of the run.
//
//go:embed testdata/version8.sql
var version8 string

// Version 8 has told the run in another way. What it has confirmed in this run stays confirmed, so the
// upgrade ends nobody.
func TestAnUpgradeFromVersion8KeepsWhatIsConfirmed(t *testing.T) {
	d := bare(t)
	d.sql(t, version8)
	d.sql(t, "create table entry (token bigint); grant all on entry to app")
	control := d.connect(t, guardRole)
	must(t, control, "select ringfence.raise('orders', 5, 'zk:a', 'host', '', (ringfence.look('orders')).basis)")
	session := d.connect(t, "app")
	const register = "select ringfence.register($1, (select backend_start from pg_stat_activity " +
		"where pid = $1), ringfence.run(), '{orders}', '{5}', array[''], 'zk:a')"
	must(t, control, register, int64(session.PgConn().PID()))
	r := &realm{database: d, token: 5}
	_, tx := r.enters(t, claimed(5), pgx.TxOptions{})
	if err := tx.Rollback(t.Context()); err != nil { // the upgrade changes tables, which it would keep locked
		t.Fatal(err)
	}
	r.upgrade(t)

	if marks, err := r.s.Marks(t.Context()); err != nil || len(marks) != 1 || !marks[0].Confirmed {
		t.Errorf("marks after the upgrade: %+v, %v", marks, err)
	}
	r.enters(t, claimed(5), pgx.TxOptions{})
	must(t, session, "select")
	r.lead(t, claimed(7))
	if session.Ping(t.Context()) == nil {
		t.Error("the newer leader has not found the session from before the upgrade")
	}
	r.outside(t, claimed(5), fence.ErrStale)
}
