package pgmarks

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/postgres/pgschema"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/pgtest"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// monitor is a role that reads the views.
const monitor = "monitor"

var views = []string{"terms", "sessions", "transactions"}

// sees returns the rows that a role reads, as text.
func (d database) sees(t testing.TB, role, query string, args ...any) (all []string) {
	t.Helper()
	rows, err := d.connect(t, role).Query(t.Context(), query, args...)
	if err == nil {
		all, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	if err != nil {
		t.Fatalf("%s as %s: %v", query, role, err)
	}
	return all
}

// monitored is led, with a role that reads the views.
func monitored(t *testing.T) *realm {
	t.Helper()
	d := led(t)
	pgtest.Role(t, d.url("postgres"), monitor, "login in role pg_monitor")
	return d
}

// Columns are asked for one by one, as people do in dashboards.
const (
	termsRow = `select concat_ws(' ', resource, token, holder, issuer, candidate, 'confirmed', confirmed, 'open', open,
	    'rolled back', rolled_back, sessions, raised_at between now() - interval '1 h' and now()) from ringfence.terms`
	sessionsRow = `select concat_ws(' ', resource, token, pid, 'attached', attached, role, application_name, host(client_addr), state,
	    since between now() - interval '1 h' and now()) from ringfence.sessions order by since`
	transactionsRow = `select concat_ws(' ', resource, coalesce(token::text, '?'), 'older', older, pid, gid, role, application_name,
	    host(client_addr), state, since between now() - interval '1 h' and now()) from ringfence.transactions order by older, since`
)

func expect(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s:\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestTheViewsShowTermsSessionsAndTransactions(t *testing.T) {
	t.Parallel()
	d := monitored(t)
	for query, what := range map[string]string{
		termsRow: "terms", sessionsRow: "sessions", transactionsRow: "transactions",
	} {
		expect(t, what, d.sees(t, monitor, query))
	}
	admitted, step := d.admitted(t, d.lead(t, claimed(5)))
	if step != marks.Admitted {
		t.Fatalf("step %v", step)
	}
	attached := d.connect(t, "app")
	execute(t, attached, "set application_name = 'billing'")
	if ok, err := Attach(t.Context(), attached, claimed(5)); !ok || err != nil {
		t.Fatalf("attached %v, %v", ok, err)
	}
	inside, _ := d.enters(t, claimed(5), pgx.TxOptions{})
	expect(t, "terms", d.sees(t, monitor, termsRow), "orders 5 host zk:a  confirmed t open t rolled "+
		"back f 2 t")
	expect(t, "sessions", d.sees(t, monitor, sessionsRow),
		fmt.Sprintf("orders 5 %d attached f app  127.0.0.1 idle t", admitted.PgConn().PID()),
		fmt.Sprintf("orders 5 %d attached t app billing 127.0.0.1 idle t", attached.PgConn().PID()))
	expect(t, "transactions", d.sees(t, monitor, transactionsRow),
		fmt.Sprintf("orders 5 older f %d app  127.0.0.1 idle in transaction t", inside.PgConn().PID()))

	_, err := raiseTo(t.Context(), d.s, claimed(7))
	must.Succeed(t, err)
	expect(t, "terms after a raise", d.sees(t, monitor, termsRow), "orders 7 host zk:a  confirmed t "+
		"open f rolled back f 2 t")
	expect(t, "transactions after a raise", d.sees(t, monitor, transactionsRow),
		fmt.Sprintf("orders ? older t %d app  127.0.0.1 idle in transaction t", inside.PgConn().PID()))
	d.lead(t, claimed(7))
	for _, c := range []*pgx.Conn{inside, attached} {
		d.closed(t, c)
	}
	expect(t, "terms after the take-over", d.sees(t, monitor, termsRow), "orders 7 host zk:a  "+
		"confirmed t open t rolled back f 0 t")
	expect(t, "sessions after the take-over", d.sees(t, monitor, sessionsRow))
	expect(t, "transactions after the take-over", d.sees(t, monitor, transactionsRow))
}

func TestTheViewsNamePreparedTransactions(t *testing.T) {
	t.Parallel()
	pg := serverstest.Postgres(t,
		servers.PostgresOptions{Settings: map[string]string{"max_prepared_transactions": "5"}})
	d := &realm{database: database{pg, "postgres"}}
	d.roles(t)
	d.sql(t, "create role monitor login in role pg_monitor; create table entry (token bigint); "+
		"grant all on entry to app")
	must.Succeed(t, Install(t.Context(), d.url("postgres"), guardRole))
	d.s = d.open(t, Options{AllowPrepared: true})
	conn, _ := d.enters(t, d.lead(t, claimed(5)), pgx.TxOptions{})
	execute(t, conn, "prepare transaction 'the one'")
	expect(t, "prepared", d.sees(t, monitor, transactionsRow), "orders 5 older f the one app t")
	_, err := raiseTo(t.Context(), d.s, claimed(7))
	must.Succeed(t, err)
	expect(t, "prepared before the raise", d.sees(t, monitor, transactionsRow), "orders ? older t "+
		"the one app t")
	execute(t, conn, "rollback prepared 'the one'")
	expect(t, "rolled back", d.sees(t, monitor, transactionsRow))

	standby, err := pg.StartStandby(t.Context(), "standby")
	must.Succeed(t, err)
	t.Cleanup(func() { _ = standby.Close() })
	there := database{standby, "postgres"}
	for _, view := range views {
		_, err := there.connect(t, monitor).Exec(t.Context(), "select * from ringfence."+view)
		if sqlstate(err) != "25006" || !strings.Contains(err.Error(), "this server is a standby") {
			t.Errorf("%s on a standby: %v", view, err)
		}
	}
}

func TestOnlyMembersOfPgMonitorReadTheViews(t *testing.T) {
	t.Parallel()
	d := monitored(t)
	for _, view := range views {
		for role, want := range map[string]string{monitor: "", "app": "42501", "postgres": ""} {
			if _, err := d.connect(t, role).Exec(t.Context(), "select * from ringfence."+
				view); sqlstate(err) != want {
				t.Errorf("%s reads %s: %v", role, view, err)
			}
		}
		for _, use := range []string{"create table public.kept (row ringfence.%s)", "begin; lock table " +
			"ringfence.%s in access share mode",
			"create function public.uses(ringfence.%s) returns integer language sql as 'select 1'"} {
			if _, err := d.connect(t, "app").PgConn().Exec(t.Context(),
				fmt.Sprintf(use, view)).ReadAll(); sqlstate(err) != "42501" {
				t.Errorf(use+": %v", view, err)
			}
		}
	}
}

// besieged has a stranger lock each view, by statements that he may not run, until the returned
// function is called. Another one waits for the strongest lock, so everybody who comes later waits,
// too.
func (d database) besieged(t *testing.T) (holder *pgx.Conn, end func()) {
	t.Helper()
	holder = d.connect(t, "app")
	execute(t, holder, "begin")
	queued := make(chan error, len(views))
	for _, view := range views {
		execute(t, holder, fmt.Sprintf("prepare %s as select * from ringfence.%[1]s", view))
		stranger := d.connect(t, "app")
		go func() {
			_, err := stranger.Exec(context.WithoutCancel(t.Context()), "create rule mine as on insert to "+
				"ringfence."+view+" do instead nothing")
			queued <- err
		}()
	}
	d.until(t, `select (count(*) = $1)::text from pg_locks l join pg_class c on c.oid = l.relation
	    where not l.granted and c.relnamespace = 'ringfence'::regnamespace
	      and l.database = (select oid from pg_database where datname = current_database())`, int64(len(views)))
	return holder, func() {
		t.Helper()
		execute(t, holder, "rollback")
		for range views {
			if err := <-queued; sqlstate(err) != "42501" {
				t.Errorf("the stranger who has waited: %v", err)
			}
		}
	}
}

func TestAStrangerWhoLocksTheViewsDelaysOnlyThoseWhoLook(t *testing.T) {
	t.Parallel()
	d := monitored(t)
	d.lead(t, claimed(5))
	super := d.connect(t, "postgres")
	image, err := pgschema.Image(t.Context(), super)
	must.Succeed(t, err)
	stranger, end := d.besieged(t)
	d.enters(t, claimed(5), pgx.TxOptions{})
	// It has the lock of a transaction that has entered, but for the one on our table.
	execute(t, stranger, "select pg_advisory_xact_lock_shared(classid::integer, pg_backend_pid()) "+
		"from pg_locks where locktype = 'advisory' and objsubid = 2")
	d.lead(t, claimed(7)) // it would end the stranger if it counted
	if _, step := d.admitted(t, claimed(7)); step != marks.Admitted {
		t.Errorf("step %v", step)
	}
	if _, err := d.s.Marks(t.Context()); err != nil {
		t.Error(err)
	}
	if warnings, err := (Roles{Guard: guardRole}).Install(t.Context(),
		d.url("postgres")); err != nil || len(warnings) > 0 {
		t.Errorf("a second installation: %q, %v", warnings, err)
	}
	if again, err := pgschema.Image(t.Context(), super); err != nil || again != image {
		t.Errorf("it has changed something: %v", err)
	}
	end()
	expect(t, "terms", d.sees(t, monitor, "select token::text from ringfence.terms"), "7")
}

// An installation has other views than the one before, or none.
func TestAViewIsReplacedOrStaysWhereSomebodyHoldsItUp(t *testing.T) {
	t.Parallel()
	d := monitored(t)
	warned := func(want int) {
		t.Helper()
		warnings, err := (Roles{Guard: guardRole}).Install(t.Context(), d.url("postgres"))
		if err != nil || len(warnings) != want {
			t.Errorf("%d warnings, want %d: %q, %v", len(warnings), want, warnings, err)
		}
	}
	const older = "drop view ringfence.terms; create view ringfence.terms as select 5 as token; " +
		"comment on view ringfence.terms is 'older'; "
	const newest = "select (count(*) filter (where attname = 'holder') = 1)::text from pg_attribute " +
		"where attrelid = 'ringfence.terms'::regclass"

	d.sql(t, older+"create view public.mine as select * from ringfence.terms")
	warned(1)
	expect(t, "a view of the user's depends on it", d.sees(t, monitor, newest), "false")
	d.sql(t, "drop view public.mine")
	_, end := d.besieged(t)
	warned(1)
	end()
	expect(t, "a stranger locks it", d.sees(t, monitor, newest), "false")
	warned(0)
	expect(t, "replaced", d.sees(t, monitor, newest), "true")
	d.sql(t, "drop view ringfence.terms, ringfence.sessions")
	warned(0)
	expect(t, "terms", d.sees(t, monitor, termsRow))
	expect(t, "sessions", d.sees(t, monitor, sessionsRow))
}
