package pgguard

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/marks/pgmarks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/pgtest"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

func TestABadClaimIsRefusedWithItsCodeAndChangesNothing(t *testing.T) {
	t.Parallel()
	pg := serverstest.SharedPostgres(t)
	database := prepared(t, pg, serverstest.FreshDatabase(t, pg))
	tap, control := tapBefore(t, pg, database)
	var refused []marks.Event
	var mu sync.Mutex
	g := guardBefore(t, pg, database, setup{
		control: control,
		Options: Options{Resources: []fence.Resource{"orders", "stock"}},
		notify: func(e marks.Event) {
			mu.Lock()
			defer mu.Unlock()
			if e.Kind == marks.Refused {
				refused = append(refused, e)
			}
		},
	})
	for _, test := range []struct{ options, code, says string }{
		{"-c fence.orders=0", "RF003", "0 belongs to no term"},
		{"-c fence.orders=-1", "RF003", "not a decimal number"},
		{"-c fence.orders=+1", "RF003", "not a decimal number"},
		{"-c fence.orders=1e3", "RF003", "not a decimal number"},
		{"-c fence.orders=0x10", "RF003", "leading zero"},
		{"-c fence.orders=9223372036854775808", "RF003", "above 9223372036854775807"},
		{"-c fence.orders=99999999999999999999999999999999999999999999", "RF003",
			"above 9223372036854775807"},
		{"-c fence.orders=seven", "RF003", "not a decimal number"},
		{"-c fence.orders=", "RF003", "empty"},
		{"-c fence.orders=07", "RF003", "leading zero"},
		{"-c fence.orders=٧", "RF003", "not a decimal number"},
		{"-c fence.orders=5 -c fence.orders=6", "RF003", "two tokens"},
		{manyClaims(33), "RF003", "a session claims 32 resources at most"},
		{"-c fence.orders=5 --FENCE.Orders=6", "RF003", "two tokens"},
		{"-c fence.=5", "RF003", "not a resource name"},
		{"-c fence.1a=5", "RF003", "not a resource name"},
		{"-c fence.a.b=5", "RF003", "not a resource name"},
		{"-c fence.größe=5", "RF003", "not a resource name"},
		{"-c fence." + strings.Repeat("a", 49) + "=5", "RF003", "longer than 48"},
		{"-c fence.invented=5", "RF003", "unknown resource"},
		{"-c fence.orders=5 -c fence.invented=5", "RF003", "unknown resource"},
		{"-c fence.orders", "RF003", "needs a value"},
		{"fence.orders=5", "RF003", "not a switch"},
		{"", "RF002", "no token"},
		{"-c work_mem=5MB", "RF002", "no token"},
		{"-c fence_orders=5", "RF002", "no token"},
		{"-c offence.orders=5", "RF002", "no token"},
	} {
		_, err := g.dialURL(g.withOptions("app", test.options))
		pg := refusedWith(t, err, test.code)
		if !strings.Contains(pg.Message, test.says) {
			t.Errorf("%q: %q does not say %q", test.options, pg.Message, test.says)
		}
		if test.code == "RF002" && !strings.Contains(pg.Hint, "with a role that may only read") {
			t.Errorf("%q: %q does not say how readers connect", test.options, pg.Hint)
		}
	}
	if n := g.count("select count(*) from ringfence_private.mark") +
		g.count("select count(*) from ringfence_private.session"); n != 0 {
		t.Errorf("%d marks and sessions", n)
	}
	if sent := tap.sentBy("app"); len(sent) != 0 {
		t.Errorf("%d connections reached the database, such as %q", len(sent), sent[0])
	}
	mu.Lock()
	defer mu.Unlock()
	if len(refused) == 0 {
		t.Error("no refusal was reported: they would be missing in the log and the metrics")
	}
	for _, e := range refused {
		if !strings.HasPrefix(e.Claim.Holder, "app@127.0.0.1:") {
			t.Errorf("the refusal of %q does not say who was refused: %q", e.Claim, e.Claim.Holder)
		}
	}
}

func TestWithoutTheSchemaTheRefusalSaysWhichCommandToRun(t *testing.T) {
	t.Parallel()
	pg := serverstest.SharedPostgres(t)
	database := prepared(t, pg, serverstest.FreshDatabase(t, pg))
	pgtest.Exec(t, pg.URL("postgres", database), "drop schema ringfence, ringfence_private cascade")
	g := guardBefore(t, pg, database, setup{})
	_, err := g.dial(5)
	if pg := refusedWith(t, err, "RF005"); !strings.Contains(pg.Hint, "guard install") {
		t.Errorf("the hint is %q", pg.Hint)
	}
	must.Succeed(t, pgmarks.Install(t.Context(), pg.URL("postgres", database), "guard_role"))
	_, err = g.dial(5) // the marks are lost, and there is no coordinator to ask
	refusedWith(t, err, "RF013")
	if _, err := g.store.Adopt(t.Context(),
		fence.Claim{Resource: "orders", Issuer: elector.Unverified}, "an operator"); err != nil {
		t.Fatal(err)
	}
	g.open(5)
	// while control connections are open
	pgtest.Exec(t, pg.URL("postgres", database), "drop schema ringfence, ringfence_private cascade")
	_, err = g.dial(5)
	refusedWith(t, err, "RF005")
}

func TestASetupThatCannotFenceIsRefusedWithWhatToDo(t *testing.T) {
	t.Parallel()
	pg := serverstest.Postgres(t, servers.PostgresOptions{
		Settings: map[string]string{"max_prepared_transactions": "3"},
	})
	database := prepared(t, pg, "postgres")
	bouncer := serverstest.PgBouncer(t, pg, servers.PgBouncerOptions{})
	for name, test := range map[string]struct {
		before string
		setup
		says string
	}{
		"prepared transactions": {"", setup{}, "max_prepared_transactions is 3"},
		"a pooler": {"", setup{
			control: bouncer.URL("guard_role", database),
			store:   pgmarks.Options{AllowPrepared: true},
		}, "pooler"},
		"no right to see other sessions": {"revoke pg_read_all_stats from guard_role",
			setup{store: pgmarks.Options{AllowPrepared: true}}, "pg_read_all_stats"},
		"no right to raise": {"revoke execute on function ringfence.register from guard_role",
			setup{store: pgmarks.Options{AllowPrepared: true}}, "lacks a privilege"},
		"no such control user": {"", setup{control: pg.URL("nobody_here", database)},
			"nobody_here"},
	} {
		t.Run(name, func(t *testing.T) {
			if test.before != "" {
				pgtest.Exec(t, pg.URL("postgres", database), test.before)
			}
			_, err := guardBefore(t, pg, database, test.setup).dial(5)
			refusal := refusedWith(t, err, "57P03")
			if !strings.Contains(refusal.Message+refusal.Detail, test.says) {
				t.Errorf("%q, %q does not say %q", refusal.Message, refusal.Detail, test.says)
			}
			if err := pgmarks.Install(t.Context(),
				pg.URL("postgres", database), "guard_role"); err != nil {
				t.Fatal(err)
			}
		})
	}
	g := guardBefore(t, pg, database, setup{store: pgmarks.Options{AllowPrepared: true}})
	if n := g.markOf("orders"); n != 0 {
		t.Errorf("the mark is %d", n)
	}
	g.open(5)
}

func TestALoginThatPostgresRefusesEndsWithTheServersError(t *testing.T) {
	t.Parallel()
	pg := serverstest.Postgres(t, servers.PostgresOptions{
		Settings: map[string]string{"max_connections": "14", "superuser_reserved_connections": "2"},
		HBA: "local all all trust\nhost all guard_role 127.0.0.1/32 trust\n" +
			"host all postgres 127.0.0.1/32 trust\nhost all app 127.0.0.1/32 scram-sha-256\n" +
			"host all rejected 127.0.0.1/32 reject\n",
	})
	database := prepared(t, pg, "postgres")
	pgtest.Exec(t, pg.URL("postgres", database),
		"alter role app password 'right'; create role rejected login")
	g := guardBefore(t, pg, database, setup{})
	with := func(user string) string { return g.withOptions(user, "-c fence.orders=5") }
	for _, test := range []struct{ url, code string }{
		{with("app:wrong"), "28P01"},
		{with("rejected"), "28000"},
		{strings.Replace(with("app:right"), "/postgres?", "/no_such_database?", 1), "3D000"},
		{g.withOptions("app:right", "-c fence.orders=5 -c no_such_setting=1"), "42704"},
	} {
		_, err := g.dialURL(test.url)
		wantCode(t, err, test.code)
	}
	if n := g.markOf("orders"); n != 0 {
		t.Errorf("the mark is %d after failed logins", n)
	}
	var err error
	for range 20 {
		// until the server has no connection left for the client; the guard may need one first
		if _, err = g.dialURL(with("app:right")); err != nil && code(err) != "57P03" {
			break
		}
	}
	wantCode(t, err, "53300")
}

func TestASessionThatTheGuardCannotEndKeepsTheNewLeaderOutAndIsNamed(t *testing.T) {
	t.Parallel()
	g := fenced(t)
	super := g.pg.URL("postgres", g.database)
	pgtest.Exec(t, super,
		"drop role if exists risen; create role risen login; "+
			"grant all on ledger, ledger_n_seq to risen")
	t.Cleanup(func() { pgtest.Exec(t, super, "alter role risen nosuperuser") })
	old, err := g.dialURL(g.url("risen", 5))
	must.Succeed(t, err)
	release, result := g.held(old) // the guard would end a session at rest without the server
	pgtest.Exec(t, super, "alter role risen superuser")
	for range 2 {
		_, err = g.dial(7)
		if pg := refusedWith(t, err, "RF006"); !strings.Contains(pg.Detail, "role risen") {
			t.Errorf("the refusal does not name the role: %q", pg.Detail)
		}
	}
	for _, user := range []string{"app", "risen"} {
		_, err = g.dialURL(g.url(user, 5))
		if c := code(err); c != "RF001" && !(user == "risen" && c == "RF006") {
			t.Errorf("another session of the old leader as %s: %v", user, err)
		}
	}
	// it can still write, so no newer session is ready
	release()
	if err := <-result; err != nil {
		t.Errorf("the older session: %v", err)
	}
	pgtest.Exec(t, super, "alter role risen nosuperuser")
	g.open(7)
	_, err = old.Exec(t.Context(), "insert into ledger (token) values (5)")
	wantCode(t, err, "RF001")
}

func TestASuperusersSessionIsNotAdmitted(t *testing.T) {
	t.Parallel()
	g := fenced(t)
	_, err := g.dialURL(g.url("postgres", 5))
	refusedWith(t, err, "RF010")
	if n := g.markOf("orders"); n != 0 {
		t.Errorf("the mark is %d", n)
	}
}

func TestARefusalSaysThatPostgresIsDown(t *testing.T) {
	t.Parallel()
	nobody := serverstest.FreeAddresses(t, 1)[0]
	pg := serverstest.SharedPostgres(t)
	g := guardBefore(t, pg, "postgres", setup{
		control: "postgres://guard_role@" + nobody + "/postgres",
	})
	_, err := g.dial(5)
	if pg := refusedWith(t, err, "57P03"); !strings.Contains(pg.Detail, "cannot reach Postgres") {
		t.Errorf("the detail is %q", pg.Detail)
	}
}

func TestAStandbyIsRefused(t *testing.T) {
	t.Parallel()
	pg := serverstest.Postgres(t, servers.PostgresOptions{})
	database := prepared(t, pg, "postgres")
	standBy(t, pg)
	g := guardBefore(t, pg, database, setup{})
	_, err := g.dial(5)
	if pg := refusedWith(t, err, "57P03"); !strings.Contains(pg.Detail, "standby") {
		t.Errorf("the detail is %q", pg.Detail)
	}
	pgtest.Exec(t, pg.URL("postgres", "postgres"), "select pg_promote(true, 30)")
	// the timeline has changed, and there is no coordinator to ask whether there was a mark
	_, err = g.dial(5)
	refusedWith(t, err, "RF013")
}

// A hanging control connection must not keep clients waiting for longer than one admission may
// take.
func TestClientsAreRefusedInTimeWhenAControlConnectionHangs(t *testing.T) {
	t.Parallel()
	g := fencedBy(t, setup{
		Options: Options{LoginTimeout: time.Hour,
			Admission: &marks.Admission{Authority: marks.Unverified{}, Timeout: 3 * time.Second}},
		store: pgmarks.Options{Connections: 1},
	})
	g.open(5)
	pid := g.count("select pid from pg_stat_activity where application_name = 'ringfence' " +
		"and datname = current_database()")
	resume := stopProcess(t, pid)
	_, err := g.dial(5)
	if c := code(err); c != "57P03" && c != "RF006" {
		t.Errorf("got %v", err)
	}
	resume()
	g.open(5)
}

func TestAProcessThatRetriesAStaleTokenInALoopIsRefusedEachTime(t *testing.T) {
	t.Parallel()
	g := fenced(t)
	g.open(7)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 10 {
				_, err := g.dial(5)
				wantCode(t, err, "RF001")
			}
		})
	}
	all.Wait()
	if n := g.count("select count(*) from ringfence_private.session where token <> 7"); n != 0 {
		t.Errorf("%d sessions of the old token are registered", n)
	}
}

// manyClaims are the options of a session that claims so many resources.
func manyClaims(n int) string {
	var all strings.Builder
	for i := range n {
		fmt.Fprintf(&all, " -c fence.r%d=5", i)
	}
	return all.String()
}
