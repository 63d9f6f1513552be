package sqlterms

import (
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/test/must"
)

// The name of a holder is no secret, and with authorization on another role may not claim its
// resources.
func TestNobodyRenewsOrEndsTheLeaseOfAnotherRole(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	admin, c, other := s.connect("postgres"), s.connect("app"), s.connect("second")
	s.exec(admin, "select ringfence.allow('app', 'orders'), ringfence.allow('second', 'own'), "+
		"ringfence.authorize(true)")
	first := s.ready(c, "campaign('orders', 'host-1', '1 minute')")
	for _, ttl := range []string{"1 second", "1 day"} {
		s.one(other, "campaign('own', 'host-1', '"+ttl+"')")
		var until time.Time
		err := admin.QueryRow(s.ctx, `select expires_at from ringfence_private.candidate c join ringfence_private.lease s on s.id = c.lease
		                               where c.resource = 'orders'`).Scan(&until)
		if err != nil || !until.Equal(*first.Until) {
			t.Errorf("a lease until %s ends at %s, %v", first.Until, until, err)
		}
	}
}

// A process pauses between its call and COMMIT.
func TestAPauseBeforeTheCommitHoldsUpNobody(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	c, paused := s.connect("app"), s.connect("app")
	s.ready(paused, "campaign('orders', 'host-1', '1 second')")
	tx, err := paused.Begin(s.ctx)
	must.Succeed(t, err)
	s.one(tx, "campaign('orders', 'host-1', '1 second')")
	s.ready(c, "campaign('orders', 'host-2', '1 minute')") // it waits, for seconds
	if err := tx.Commit(s.ctx); err == nil {
		t.Error("the paused one has committed")
	}
}

// A role that has chosen a shorter pause keeps it.
func TestAShorterPauseStays(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	c := s.connect("app")
	for chosen, want := range map[string]string{"0": "5s", "1h": "5s", "3s": "3s", "200ms": "200ms"} {
		tx, err := c.Begin(s.ctx)
		must.Succeed(t, err)
		var got string
		if _, err = tx.Exec(s.ctx, "select set_config('idle_in_transaction_session_timeout', $1, true)",
			chosen); err != nil {
			t.Fatal(err)
		}
		s.one(tx, "take('orders', 'host-1')")
		if err := tx.QueryRow(s.ctx, "show idle_in_transaction_session_timeout").Scan(&got); err != nil ||
			got != want {
			t.Errorf("%s became %s, %v; want %s", chosen, got, err, want)
		}
		must.Succeed(t, tx.Rollback(s.ctx))
	}
}

// A leader calls campaign while somebody takes its resource.
func TestWhoIsDeposedDuringItsCallGetsARow(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	c, taker, admin := s.connect("app"), s.connect("app"), s.connect("postgres")
	s.ready(c, "campaign(array['orders'], 'host-1', '1 minute')")
	tx, err := taker.Begin(s.ctx)
	must.Succeed(t, err)
	s.one(tx, "take('orders', 'host-2', 1)")
	got := make(chan []term, 1)
	go func() {
		all, err := s.call(c, "campaign(array['orders', 'stock'], 'host-1', '1 minute')")
		must.Report(t, err)
		got <- all
	}()
	for waits := false; !waits; s.waits("campaign does not wait") {
		if err := admin.QueryRow(s.ctx,
			"select exists (select from pg_stat_activity where wait_event_type = 'Lock' "+
				"and datname = current_database())").Scan(&waits); err != nil {
			t.Fatal(err)
		}
	}
	must.Succeed(t, tx.Commit(s.ctx))
	all := <-got
	if len(all) != 2 {
		t.Errorf("%d rows", len(all))
	}
	for _, now := range all {
		if leads := now.Resource == "stock"; now.Ready != leads || (now.Pass != nil) != leads {
			t.Errorf("%+v", now)
		}
	}
	if all, err := s.call(c, "campaign(array['orders', 'stock'], 'host-1', '1 minute')"); err != nil ||
		len(all) != 2 || all[0].Leader != "host-2" {
		t.Errorf("%+v, %v", all, err)
	}
}

// One call raises a new mark, and revokes under another one, which is not durable.
func TestWhatARaiseHasWrittenIsDurableBesideARevocation(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	c := s.connect("app")
	s.ready(c, "take('orders', 'host-1', 1)")
	if s.one(c, "take('orders', 'host-2', 2)").Ready {
		t.Fatal("the next call has nothing to revoke")
	}
	_, err := c.Exec(s.ctx, "set synchronous_commit = off")
	must.Succeed(t, err)
	for _, call := range []string{"take('orders', 'host-2', 2)", "campaign(array['new'], 'host-2')"} {
		tx, err := c.Begin(s.ctx)
		must.Succeed(t, err)
		s.one(tx, call)
		var level string
		if err := tx.QueryRow(s.ctx, "show synchronous_commit").Scan(&level); err != nil ||
			level != "on" {
			t.Errorf("%s commits with synchronous_commit %s, %v", call, level, err)
		}
		must.Succeed(t, tx.Commit(s.ctx))
	}
}
