package main

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/pgtest"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// byHand is a standby that lacks the primary's last writes, and that somebody promotes by deleting
// standby.signal. System identifier and timeline stay the same.
type byHand struct {
	primary, standby *servers.Postgres
	address          *servers.Relay // leads to the one that is the primary
	env              []string
}

func promotedByHand(t *testing.T) *byHand {
	t.Helper()
	p := &byHand{}
	p.primary, p.env = fresh(t)
	p.address = serverstest.NewRelay(t, p.primary.Addr())
	lead(p.env, p.primary.Addr(), p.address.Addr())
	invoke(t, p.env, "install")
	var err error
	if p.standby, err = p.primary.StartStandby(t.Context(), "standby"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.standby.Close() })
	return p
}

// cutOff stops the standby once it has a mark, so that it lacks everything later.
func (p *byHand) cutOff(t *testing.T, mark int) {
	t.Helper()
	const query = "select coalesce(max(token), 0)::text from ringfence_private.mark"
	deadline := time.Now().Add(time.Minute)
	for pgtest.Value[string](t, p.standby.URL("postgres", "postgres"), query) != strconv.Itoa(mark) {
		if time.Now().After(deadline) {
			t.Fatal("the mark has not reached the standby")
		}
	}
	must.Succeed(t, p.standby.Stop())
}

// promote lets the standby take the place of the primary, which is lost.
func (p *byHand) promote(t *testing.T) {
	t.Helper()
	const identity = `select system_identifier || '/' || timeline_id
	    from pg_control_system(), pg_control_checkpoint()`
	before := pgtest.Value[string](t, p.primary.URL("postgres", "postgres"), identity)
	must.Succeed(t, p.primary.Kill())
	must.Succeed(t, os.Remove(filepath.Join(p.standby.Dir(), "data", "standby.signal")))
	must.Succeed(t, p.standby.Start(t.Context()))
	if now := pgtest.Value[string](t, p.standby.URL("postgres", "postgres"), identity); now != before {
		t.Fatalf("the server was %s and is %s, so its data show the promotion", before, now)
	}
	p.address.To(p.standby.Addr())
}

// serving starts a guard that knows nothing yet, and waits until it is ready.
func (p *byHand) serving(t *testing.T, env ...string) *running {
	t.Helper()
	r := serving(t, append(env, p.env...)...)
	r.ready(http.StatusOK)
	return r
}

func TestAGuardRemembersAMarkThatAPromotionByHandHasLost(t *testing.T) {
	p := promotedByHand(t)
	r := p.serving(t)
	_, err := r.connect(5)
	must.Succeed(t, err)
	p.cutOff(t, 5)
	_, err = r.connect(7)
	must.Succeed(t, err)
	p.promote(t)

	// What the data cannot show, a guard without memory and without a coordinator cannot know.
	_, err = p.serving(t).connect(5)
	must.Succeed(t, err)
	_, err = r.connect(5)
	wantCode(t, err, "RF001")
	pg, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || !strings.Contains(pg.Message, "the store has lost") ||
		!strings.Contains(pg.Hint, "guard adopt orders") {
		t.Errorf("the refusal says %v, %+v", err, pg)
	}

	code, out, errs := invoke(t, p.env, "adopt", "orders")
	if code != cli.Done {
		t.Fatalf("adopt: exit %d: %s%s", code, out, errs)
	}
	deadline := time.Now().Add(time.Minute) // the last refusal is repeated for a second
	for _, err = r.connect(6); err != nil && time.Now().Before(deadline); {
		_, err = r.connect(6)
	}
	if err != nil {
		t.Errorf("after the adoption: %v", err)
	}
	_, err = r.connect(5)
	wantCode(t, err, "RF001")
}

func TestACoordinatorKnowsWhoLeadsAfterAPromotionByHand(t *testing.T) {
	p := promotedByHand(t)
	zk := serverstest.ZooKeeper(t, servers.ZooKeeperOptions{})
	coordinator := "GUARD_COORDINATOR=zk://" + zk.Addr()
	r := p.serving(t, coordinator)
	first := elected(t, zk)
	_, err := r.connect(int(first.Token()))
	must.Succeed(t, err)
	p.cutOff(t, int(first.Token()))
	resign(t, first)
	second := elected(t, zk)
	_, err = r.connect(int(second.Token()))
	must.Succeed(t, err)
	p.promote(t)

	forgetful := p.serving(t, coordinator)
	_, err = forgetful.connect(int(first.Token()))
	wantCode(t, err, "RF007")
	for _, guard := range []*running{forgetful, r} {
		if _, err := guard.connect(int(second.Token())); err != nil {
			t.Error(err)
		}
		_, err := guard.connect(int(first.Token()))
		wantCode(t, err, "RF001")
	}
}
