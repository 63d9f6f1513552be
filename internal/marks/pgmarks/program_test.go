package pgmarks

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
	elections "github.com/ringfence/ringfence/fence/postgres"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// programs returns a database without a guard, whose programs log in as app.
func programs(t *testing.T) database {
	t.Helper()
	d := database{serverstest.SharedPostgres(t),
		serverstest.FreshDatabase(t, serverstest.SharedPostgres(t))}
	d.roles(t)
	d.sql(t, "create table entry (token bigint); grant all on entry to app")
	if _, err := (Roles{Leaders: []string{"app"}}).Install(t.Context(),
		d.url("postgres")); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestAProgramRaisesWithoutAGuardAndEndsWhoIsOlder(t *testing.T) {
	t.Parallel()
	d := programs(t)
	c, err := elections.Open(t.Context(), d.url("app"), elections.Options{})
	must.Succeed(t, err)
	defer c.Close()
	raiser := Raiser{URL: d.url("app"), Authority: marks.Elected{Observer: c}}
	term, err := c.Campaign(t.Context(), "orders", "first")
	must.Succeed(t, err)
	first := term.Claim()
	must.Succeed(t, raiser.Raise(t.Context(), first))
	older := d.connect(t, "app")
	tx, err := Begin(t.Context(), older, first, pgx.TxOptions{})
	must.Succeed(t, err)
	if _, err := tx.Exec(t.Context(), "insert into entry values ($1)",
		int64(first.Token)); err != nil {
		t.Fatal(err)
	}
	must.Succeed(t, term.Resign(t.Context()))
	second, err := c.Campaign(t.Context(), "orders", "second")
	must.Succeed(t, err)
	if err := raiser.Raise(t.Context(), first); !errors.Is(err, fence.ErrNotLeader) {
		t.Errorf("the deposed leader raises: %v", err)
	}
	must.Succeed(t, raiser.Raise(t.Context(), second.Claim()))
	if err := tx.Commit(context.WithoutCancel(t.Context())); err == nil {
		t.Error("the transaction of the older leader was committed")
	}
	if n := d.list(t, "select count(*)::text from entry")[0]; n != "0" {
		t.Errorf("%s rows", n)
	}
}

// What a guard may, and what would let a program forget a session or open a gate, is not a
// program's.
func TestAProgramHasNoRightsOfAGuard(t *testing.T) {
	t.Parallel()
	d := programs(t)
	c := d.connect(t, "app")
	for _, call := range []string{
		"ringfence.raise('orders', 5, 'zk:a', 'h', '', '')", "ringfence.revoke('orders', 5, 'zk:a', 0)",
		"ringfence.forget('orders', '{}'::integer[], '{}'::timestamptz[])", "ringfence.open('orders', " +
			"'p')",
		"ringfence.register(1, now(), '', '{}'::text[], '{}'::bigint[], '{}'::text[], '')",
		"ringfence.begin_term(null, 'h', '')", "ringfence.adopt('orders', 5, 'i', 'h', 'by')",
		"ringfence.sweep()",
	} {
		if _, err := c.Exec(t.Context(), "select "+call); sqlstate(err) != "42501" {
			t.Errorf("%s: %v", call, err)
		}
	}
	issuer := d.list(t, "select ringfence.issuer()")[0]
	_, err := c.Exec(t.Context(), "select ringfence.raise_own('orders', 7, $1, 'h', '', "+
		"(ringfence.look('orders')).basis)", issuer)
	if sqlstate(err) != "RF007" {
		t.Errorf("a number that leads nowhere is raised: %v", err)
	}
	if n := len(d.list(t, "select resource from ringfence.marks(null)")); n != 0 {
		t.Errorf("%d marks", n)
	}
}

func TestARoleIsAGuardsOrAPrograms(t *testing.T) {
	t.Parallel()
	d := programs(t)
	_, err := Roles{Guard: "app", Leaders: []string{"app"}}.Install(t.Context(), d.url("postgres"))
	if err == nil || !strings.Contains(err.Error(), `the role "app"`) ||
		!strings.Contains(err.Error(), "a role of its own") {
		t.Errorf("%v", err)
	}
}

// An authorization that forbids a resource to a role forbids its raises, too.
func TestAProgramRaisesOnlyWhatItMayClaim(t *testing.T) {
	t.Parallel()
	d := programs(t)
	d.sql(t, "select ringfence.allow('app', 'stock'); select ringfence.authorize(true)")
	raiser := Raiser{URL: d.url("app")}
	for resource, want := range map[fence.Resource]error{
		"orders": fence.ErrNotAuthorized, "stock": nil,
	} {
		c := claimed(5)
		c.Resource = resource
		if err := raiser.Raise(t.Context(), c); !errors.Is(err, want) {
			t.Errorf("%s: %v", resource, err)
		}
	}
}
