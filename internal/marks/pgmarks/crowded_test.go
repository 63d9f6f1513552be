package pgmarks

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/test/must"
)

// Any role that can log in may call enter and attach, and take advisory locks. None of these may
// delay a new leader.

// soon is how long a raise may take on a busy machine when nothing blocks it. A lock that is never
// released takes longer.
const soon = 20 * time.Second

func TestATransactionThatAttachesAndStaysOpenDelaysNobody(t *testing.T) {
	t.Parallel()
	d := tasked(t)
	attached := d.connect(t, "app")
	execute(t, attached, "begin")
	execute(t, attached, "select ringfence.attach($1, 'orders', 5, 'zk:a')",
		int64(attached.PgConn().PID()))
	stock := claimed(6)
	stock.Resource = "stock"
	d.lead(t, stock) // of another resource
	if _, step := d.admitted(t, claimed(5)); step != 0 {
		t.Errorf("a session of the same token: step %v", step)
	}
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	must.Succeed(t, takeOver(ctx, d.s, claimed(7)))
	if _, err := attached.Exec(t.Context(), "commit"); err == nil {
		t.Error("the older session is still alive")
	}
}

// The revocation ends a session that attaches during the raise, although its record is not visible
// yet.
func TestASessionThatAttachesDuringARaiseIsEndedByIt(t *testing.T) {
	t.Parallel()
	d := tasked(t)
	raising := d.raising(t, claimed(7))
	attached := d.connect(t, "app")
	execute(t, attached, "begin")
	execute(t, attached, "select ringfence.attach($1, 'orders', 5, 'zk:a')",
		int64(attached.PgConn().PID()))
	execute(t, raising, "commit")
	if _, step := d.admitted(t, claimed(7)); step == 0 {
		t.Error("a newer session is admitted while an older one attaches")
	}
	d.lead(t, claimed(7))
	if _, err := attached.Exec(t.Context(), "commit"); err == nil {
		t.Error("the older session is still alive")
	}
}

// Anybody may take advisory locks. Backends that only hold them, or wait for them, have not
// entered.
func TestAdvisoryLocksDelayNobody(t *testing.T) {
	t.Parallel()
	d := tasked(t)
	number := d.list(t, "select ringfence.number(pass)::text from ringfence_private.gate where "+
		"resource = 'orders'")[0]
	for i, role := range []string{"app", "postgres"} {
		shared, exclusive := d.connect(t, role), d.connect(t, role)
		execute(t, shared, "select pg_advisory_lock_shared("+number+
			", k) from generate_series(1, 20) k")
		execute(t, exclusive, "select pg_advisory_lock("+number+
			", k) from generate_series(100 * $1 + 100, 100 * $1 + 120) k", i)
	}
	d.enters(t, claimed(5), pgx.TxOptions{})
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	must.Succeed(t, takeOver(ctx, d.s, claimed(7)))
	d.enters(t, claimed(7), pgx.TxOptions{})
}

// Anybody may make a setting too, so a transaction's own settings prove nothing.
func TestAForgedSettingPublishesNothing(t *testing.T) {
	t.Parallel()
	const publish = "select ringfence.publish('orders', 5, 'zk:a', 'nightly', 1, '{}')"
	d := tasked(t)
	d.lead(t, claimed(7))
	for _, forged := range []string{"entered", "attached"} {
		script := "begin; select set_config('ringfence.orders', '" + forged + " 5 zk:a', true); " +
			"select set_config('ringfence_session.orders', '5 zk:a', false); " +
			publish + "; commit"
		if err := d.run(t, script); sqlstate(err) != "RF001" {
			t.Errorf("%s: got %v", forged, err)
		}
	}
	if n := d.list(t, "select count(*)::text from ringfence_private.checkpoint")[0]; n != "0" {
		t.Errorf("%s checkpoints were stored", n)
	}
}

// Connection pools reset settings between two uses. The session stays registered and can still
// publish.
func TestASessionThatIsResetStaysAttached(t *testing.T) {
	t.Parallel()
	d := tasked(t)
	c := d.connect(t, "app")
	if ok, err := Attach(t.Context(), c, claimed(5)); !ok || err != nil {
		t.Fatal(ok, err)
	}
	for i, reset := range []string{"select", "reset all", "discard all"} {
		execute(t, c, reset)
		tx, err := BeginAttached(t.Context(), c, claimed(5), pgx.TxOptions{})
		must.Succeed(t, err)
		const publish = "select ringfence.publish('orders', 5, 'zk:a', 'nightly', $1, '{}')"
		if _, err := tx.Exec(t.Context(), publish, pgx.QueryExecModeExec, i+1); err != nil {
			t.Errorf("after %s: %v", reset, err)
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Errorf("after %s: %v", reset, err)
		}
	}
}

func TestAttachFailsInAnOpenTransaction(t *testing.T) {
	t.Parallel()
	d := tasked(t)
	c := d.connect(t, "app")
	execute(t, c, "begin")
	if ok, err := Attach(t.Context(), c,
		fence.Claim{Resource: "orders", Token: 5, Issuer: "zk:a"}); ok || err == nil {
		t.Errorf("attached in a transaction: %v, %v", ok, err)
	}
}
