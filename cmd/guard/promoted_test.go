package main

import (
	"context"
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
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/postgres"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/pgtest"
	"github.com/ringfence/ringfence/internal/test/poll"
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
	if !poll.Until(time.Minute, func() bool {
		now := pgtest.Value[string](t, p.standby.URL("postgres", "postgres"), query)
		return now == strconv.Itoa(mark)
	}) {
		t.Fatal("the mark has not reached the standby")
	}
	must.Succeed(t, p.standby.Stop())
}

// stopStreaming has the standby hear nothing more of the primary.
func (p *byHand) stopStreaming(t *testing.T) {
	t.Helper()
	standby := p.standby.URL("postgres", "postgres")
	pgtest.Exec(t, standby, "alter system set primary_conninfo to ''")
	pgtest.Exec(t, standby, "select pg_reload_conf()")
	if !poll.Until(time.Minute, func() bool {
		return pgtest.Value[bool](t, standby, "select not exists (select from pg_stat_wal_receiver)")
	}) {
		t.Fatal("the standby still follows the primary")
	}
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
	t.Parallel()
	p := promotedByHand(t)
	r := p.serving(t)
	_, err := r.connect(5)
	must.Succeed(t, err)
	p.cutOff(t, 5)
	_, err = r.connect(7)
	must.Succeed(t, err)
	p.promote(t)

	// What the data cannot show, a guard without memory and without a coordinator cannot know.
	forgetful := p.serving(t)
	admitted, err := forgetful.connect(5)
	must.Succeed(t, err)
	_, err = r.connect(5)
	wantCode(t, err, "RF001")
	pg, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || !strings.Contains(pg.Message, "the store had lost") ||
		!strings.Contains(pg.Hint, "guard adopt orders") {
		t.Errorf("the refusal says %v, %+v", err, pg)
	}
	// From now on the store shows it.
	if _, err := admitted.Exec(t.Context(), "select 1"); err == nil {
		t.Error("the session that another guard has admitted goes on")
	}
	_, err = forgetful.connect(5)
	wantCode(t, err, "RF001")

	code, out, errs := invoke(t, p.env, "adopt", "orders")
	if code != cli.Done {
		t.Fatalf("adopt: exit %d: %s%s", code, out, errs)
	}
	r.admits(t, 6) // the last refusal is repeated for a second
	_, err = r.connect(5)
	wantCode(t, err, "RF001")
}

// A primary is cut off, a standby is promoted and lost, and the primary comes back. It has the
// elections, too, and gives out lower numbers than the standby has.
func TestAPrimaryThatComesBackOnItsOlderTimelineLocksNobodyOut(t *testing.T) {
	t.Parallel()
	p := promotedByHand(t)
	url := "postgres://postgres@" + p.address.Addr() + "/postgres?sslmode=disable"
	r := p.serving(t, "GUARD_COORDINATOR="+url)
	first := electedAt(t, url)
	_, err := r.connect(int(first.Token()))
	must.Succeed(t, err)

	// The primary is cut off, and does not know it: it elects a leader after the standby has heard of
	// one for the last time, and before the standby elects the next.
	p.stopStreaming(t)
	p.address.To(p.standby.Addr())
	cutOff := p.primary.URL("postgres", "postgres")
	third := electedAt(t, cutOff)
	pgtest.Exec(t, p.standby.URL("postgres", "postgres"), "select pg_promote()")
	second := electedAt(t, url)
	r.admits(t, int(second.Token()))
	_, err = p.serving(t, "GUARD_COORDINATOR="+cutOff).connect(int(third.Token()))
	wantNotAdmitted(t, err)
	_, err = r.connect(int(second.Token()))
	must.Succeed(t, err)

	must.Succeed(t, p.standby.Kill())
	p.address.To(p.primary.Addr())
	if third.Token() <= first.Token() || third.Token() >= second.Token() {
		t.Fatalf("%s and %s led before, and %s leads", first.Token(), second.Token(), third.Token())
	}
	for name, guard := range map[string]*running{
		"the guard":               r,
		"a guard that starts now": p.serving(t, "GUARD_COORDINATOR="+url),
	} {
		if _, err := guard.connect(int(third.Token())); err != nil {
			t.Errorf("%s refuses the leader: %v", name, err)
		}
		for _, older := range []*fence.Term{first, second} {
			_, err := guard.connect(int(older.Token()))
			wantNotAdmitted(t, err)
		}
	}
}

// electedAt returns the term of a leader that Postgres has elected, with a short session.
func electedAt(t *testing.T, url string) *fence.Term {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	co, err := postgres.Open(ctx, url, postgres.Options{SessionTimeout: 5 * time.Second})
	must.Succeed(t, err)
	t.Cleanup(func() { _ = co.Close() })
	term, err := co.Campaign(ctx, "orders", "a")
	must.Succeed(t, err)
	return term
}

// wantNotAdmitted wants a refusal because a token does not lead.
func wantNotAdmitted(t *testing.T, err error) {
	t.Helper()
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != "RF001" && pg.Code != "RF007" {
		t.Errorf("got %v, want a refusal of a token that does not lead", err)
	}
}

func TestACoordinatorKnowsWhoLeadsAfterAPromotionByHand(t *testing.T) {
	t.Parallel()
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
