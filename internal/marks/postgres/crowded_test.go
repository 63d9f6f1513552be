package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
)

// Any role that may log in can call enter and attach, and take advisory locks. None of that holds up a new leader.

// soon is the most that a raise may take that nobody holds up, on a busy machine; a lock that is never given back takes
// longer.
const soon = 20 * time.Second

func TestATransactionThatAttachesAndStaysOpenHoldsNobodyUp(t *testing.T) {
	d := tasked(t)
	lazy := d.connect(t, "app")
	must(t, lazy, "begin")
	must(t, lazy, "select ringfence.attach($1, 'orders', 5, 'zk:a')", int64(lazy.PgConn().PID()))
	stock := claimed(6)
	stock.Resource = "stock"
	d.lead(t, stock) // of another resource
	if _, step := d.admitted(t, claimed(5)); step != 0 {
		t.Errorf("a session of the same token: step %v", step)
	}
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	if err := takeOver(ctx, d.s, claimed(7)); err != nil {
		t.Fatal(err)
	}
	if _, err := lazy.Exec(t.Context(), "commit"); err == nil {
		t.Error("the older session lives")
	}
}

// What attaches while a raise is under way is ended by its revocation, although its record cannot be seen yet.
func TestASessionThatAttachesWhileARaiseIsUnderWayIsEndedByIt(t *testing.T) {
	d := tasked(t)
	raising := d.raising(t, claimed(7))
	lazy := d.connect(t, "app")
	must(t, lazy, "begin")
	must(t, lazy, "select ringfence.attach($1, 'orders', 5, 'zk:a')", int64(lazy.PgConn().PID()))
	must(t, raising, "commit")
	if _, step := d.admitted(t, claimed(7)); step == 0 {
		t.Error("a newer session is admitted beside one that attaches")
	}
	d.lead(t, claimed(7))
	if _, err := lazy.Exec(t.Context(), "commit"); err == nil {
		t.Error("the older session lives")
	}
}

// Advisory locks are anybody's. Those who hold them, or wait for them, are not inside.
func TestAdvisoryLocksHoldNobodyUp(t *testing.T) {
	d := tasked(t)
	number := d.list(t, "select number::text from ringfence.gate where resource = 'orders'")[0]
	for i, role := range []string{"app", "postgres"} {
		shared, exclusive := d.connect(t, role), d.connect(t, role)
		must(t, shared, "select pg_advisory_lock_shared("+number+", k) from generate_series(1, 20) k")
		must(t, exclusive, "select pg_advisory_lock("+number+", k) from generate_series(100 * $1 + 100, 100 * $1 + 120) k", i)
	}
	d.enters(t, claimed(5), pgx.TxOptions{})
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	if err := takeOver(ctx, d.s, claimed(7)); err != nil {
		t.Fatal(err)
	}
	d.enters(t, claimed(7), pgx.TxOptions{})
}

// A setting is anybody's too. What a transaction says of itself is not believed.
func TestAForgedSettingPublishesNothing(t *testing.T) {
	const publish = "select ringfence.publish('orders', 5, 'zk:a', 'nightly', 1, '{}')"
	d := tasked(t)
	d.lead(t, claimed(7))
	for _, forged := range []string{"entered", "attached"} {
		script := "begin; select set_config('ringfence.orders', '" + forged + " 5 zk:a', true); " +
			"select set_config('ringfence_session.orders', '5 zk:a', false); " + publish + "; commit"
		if err := d.run(t, script); sqlstate(err) != "RF001" {
			t.Errorf("%s: got %v", forged, err)
		}
	}
	if n := d.list(t, "select count(*)::text from ringfence.checkpoint")[0]; n != "0" {
		t.Errorf("%s checkpoints have landed", n)
	}
}

// Pools reset the settings of a connection between two uses. The session stays registered, and can go on publishing.
func TestASessionThatIsResetStaysAttached(t *testing.T) {
	d := tasked(t)
	c := d.connect(t, "app")
	if ok, err := Attach(t.Context(), c, claimed(5)); !ok || err != nil {
		t.Fatal(ok, err)
	}
	for i, reset := range []string{"select", "reset all", "discard all"} {
		must(t, c, reset)
		tx, err := BeginAttached(t.Context(), c, claimed(5), pgx.TxOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), "select ringfence.publish('orders', 5, 'zk:a', 'nightly', $1, '{}')", pgx.QueryExecModeExec, i+1); err != nil {
			t.Errorf("after %s: %v", reset, err)
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Errorf("after %s: %v", reset, err)
		}
	}
}

func TestAttachSaysThatATransactionIsOpen(t *testing.T) {
	d := tasked(t)
	c := d.connect(t, "app")
	must(t, c, "begin")
	if ok, err := Attach(t.Context(), c, fence.Claim{Resource: "orders", Token: 5, Issuer: "zk:a"}); ok || err == nil {
		t.Errorf("attached: %v, %v", ok, err)
	}
}
