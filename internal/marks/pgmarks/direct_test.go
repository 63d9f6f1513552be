package pgmarks

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/pgtest"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// direct returns a realm whose database admits the role app itself. Its mark is 5.
func direct(t *testing.T, trial bool) *realm {
	t.Helper()
	d := led(t)
	d.needsLoginTriggers(t)
	d.lead(t, claimed(5))
	d.switchTo(t, trial, "app")
	return d
}

func (r *realm) switchTo(t *testing.T, trial bool, roles ...string) {
	t.Helper()
	must.Succeed(t, r.authorizer(t).Direct(t.Context(), roles, trial))
}

func (d database) hasLoginTriggers(t *testing.T) bool {
	t.Helper()
	return pgtest.HasLoginTriggers(t, d.url("postgres"))
}

func (d database) needsLoginTriggers(t *testing.T) {
	t.Helper()
	if !d.hasLoginTriggers(t) {
		t.Skip("login triggers need Postgres 17: make test-newer")
	}
}

// logIn connects to the database itself, with what a leader sends.
func (r *realm) logIn(t *testing.T, role, options string) (*pgx.Conn, error) {
	t.Helper()
	cfg, err := pgx.ParseConfig(r.url(role))
	must.Succeed(t, err)
	cfg.RuntimeParams["options"] = options
	c, err := pgx.ConnectConfig(t.Context(), cfg)
	if err == nil {
		t.Cleanup(func() { _ = c.Close(t.Context()) })
	}
	return c, err
}

func (r *realm) wantIn(t *testing.T, role, options string) *pgx.Conn {
	t.Helper()
	c, err := r.logIn(t, role, options)
	if err != nil {
		t.Fatalf("%s with %q: %v", role, options, err)
	}
	return c
}

func (r *realm) wantRefused(t *testing.T, options, code, says string) {
	t.Helper()
	_, err := r.logIn(t, "app", options)
	if err == nil || !strings.Contains(err.Error(), "SQLSTATE "+code) ||
		!strings.Contains(err.Error(), says) {
		t.Errorf("with %q: %v, want %s, %q", options, err, code, says)
	}
}

func TestTheDatabaseItselfAdmitsALeader(t *testing.T) {
	t.Parallel()
	d := direct(t, false)
	older := d.wantIn(t, "app", "-c fence.orders=5")
	execute(t, older, "insert into entry values (5)")
	d.wantIn(t, "postgres", "")
	d.wantIn(t, guardRole, "")
	d.wantRefused(t, "", "RF002", `role "app" may log in here only under a token`)
	d.wantRefused(t, "-c fence.stock=5", "RF002", "none of a resource with a mark")
	d.wantRefused(t, "-c fence.orders=five", "RF003", "'five' is not a token")
	d.wantRefused(t, "-c fence.orders=4", "RF001", "stale token: 4 is older than the mark 5")
	d.wantRefused(t, "-c fence.orders=7", "RF0", "7")

	d.lead(t, claimed(7)) // and ends the older session
	if _, err := older.Exec(t.Context(), "insert into entry values (5)"); err == nil {
		t.Error("the deposed leader has written")
	}
	d.wantRefused(t, "-c fence.orders=5", "RF001", "stale token: 5 is older than the mark 7")
	execute(t, d.wantIn(t, "app", "-c fence.orders=7"), "insert into entry values (7)")
	d.switchTo(t, false)
	d.wantIn(t, "app", "")
}

// A pooler logs in without the settings of its clients, so the database refuses it. A session that
// it kept for the next client would be under another client's token.
func TestAPoolerIsRefusedDirectSessions(t *testing.T) {
	t.Parallel()
	d := direct(t, false)
	b := serverstest.PgBouncer(t, d.pg, servers.PgBouncerOptions{User: "app"})
	cfg, err := pgx.ParseConfig(b.URL("app", d.name))
	must.Succeed(t, err)
	cfg.RuntimeParams["options"] = "-c fence.orders=5"
	_, err = pgx.ConnectConfig(t.Context(), cfg)
	if err == nil || !strings.Contains(err.Error(), `role "app" may log in here only under a token`) {
		t.Errorf("through a pooler: %v", err)
	}
}

// No process of ours: another role, which may lead, takes the term, and raises the mark.
func TestDirectSessionsFollowTermsOfFunctions(t *testing.T) {
	t.Parallel()
	d := led(t)
	d.needsLoginTriggers(t)
	pgtest.Role(t, d.url("postgres"), "elector", "login")
	must.Succeed(t, Install(t.Context(), d.url("postgres"), guardRole, "elector"))
	d.switchTo(t, false, "app")
	elector := d.connect(t, "elector")
	take := func(holder string, attempt int) (options string) {
		t.Helper()
		for {
			var ready bool
			var token int64
			err := elector.QueryRow(t.Context(), "select ready, token from ringfence.take('orders', $1, $2)",
				holder, attempt).Scan(&ready, &token)
			must.Succeed(t, err)
			if ready {
				return fmt.Sprintf("-c fence.orders=%d", token)
			}
		}
	}
	first := take("host-1", 1)
	older := d.wantIn(t, "app", first)
	execute(t, older, "insert into entry values (1)")
	newer := d.wantIn(t, "app", take("host-2", 2))
	if _, err := older.Exec(t.Context(), "insert into entry values (1)"); err == nil {
		t.Error("the deposed leader has written")
	}
	d.wantRefused(t, first, "RF001", "stale token")
	execute(t, newer, "insert into entry values (2)")
}

// The login's transaction is open while another leader raises the mark: the raise waits for it, and
// ends its session.
func TestALoginThatIsUnderWayIsEndedByARaise(t *testing.T) {
	t.Parallel()
	d := direct(t, false)
	// A trigger of the test's own fires after that of Ringfence, and keeps the login open.
	d.sql(t, `create function public.slow() returns event_trigger language plpgsql as $$ begin
	    if session_user = 'app' then perform pg_advisory_xact_lock(4711); end if; end $$`)
	d.sql(t, "create event trigger slow on login execute function public.slow()")
	holder := d.connect(t, "postgres")
	execute(t, holder, "select pg_advisory_lock(4711)")
	in := make(chan error, 1)
	go func() {
		c, err := d.logIn(t, "app", "-c fence.orders=5")
		if err == nil {
			_, err = c.Exec(t.Context(), "insert into entry values (5)")
		}
		in <- err
	}()
	d.until(t, `select (exists (select from pg_locks
	    where locktype = 'advisory' and objid = 4711 and not granted))::text`)
	d.lead(t, claimed(7))
	execute(t, holder, "select pg_advisory_unlock(4711)")
	if err := <-in; err == nil {
		t.Error("a session under token 5 has written after a leader with token 7 was ready")
	}
}

func TestAStandbyAdmitsNobodyItself(t *testing.T) {
	t.Parallel()
	d := direct(t, false)
	alone := serverstest.Postgres(t, servers.PostgresOptions{})
	d.database = database{alone, "postgres"}
	d.roles(t)
	must.Succeed(t, Install(t.Context(), d.url("postgres"), guardRole))
	d.s = d.open(t, Options{})
	d.lead(t, claimed(5))
	d.switchTo(t, false, "app")
	d.wantIn(t, "app", "-c fence.orders=5")
	standby, err := alone.StartStandby(t.Context(), "standby")
	must.Succeed(t, err)
	t.Cleanup(func() { must.Report(t, standby.Close()) })
	d.pg = standby
	d.wantRefused(t, "-c fence.orders=5", "57P03", "standby")
	d.wantIn(t, guardRole, "")
	d.promote(t)
	d.wantRefused(t, "-c fence.orders=5", "RF012", "orders")
}

func TestSessionsFromBeforeTheTriggerAreEnded(t *testing.T) {
	t.Parallel()
	d := led(t)
	d.needsLoginTriggers(t)
	d.lead(t, claimed(5))
	c, other := d.connect(t, "app"), d.connect(t, guardRole)
	d.switchTo(t, true, "app")
	execute(t, c, "insert into entry values (0)")
	d.switchTo(t, false, "app")
	if _, err := c.Exec(t.Context(), "insert into entry values (0)"); err == nil {
		t.Error("a session without a token goes on")
	}
	execute(t, other, "select 1")
}

func TestATrialAdmitsEverybody(t *testing.T) {
	t.Parallel()
	d := direct(t, true)
	d.wantIn(t, "app", "")
	d.wantIn(t, "app", "-c fence.orders=4")
	if log := d.pg.LogTail(40); !strings.Contains(log, "trial: this login would be refused: stale") {
		t.Error(log)
	}
}

func TestADirectSessionCannotOutliveItsConnection(t *testing.T) {
	t.Parallel()
	d := direct(t, false)
	for _, s := range []string{"repeatable read", "serializable"} {
		d.sql(t, "alter role app in database "+pgx.Identifier{d.name}.Sanitize()+
			" set default_transaction_isolation = '"+s+"'")
		d.wantRefused(t, "-c fence.orders=5", "55000", "READ COMMITTED")
	}
}

// Whatever is broken: who is not on the list gets in, who is does not, and an operator puts it
// right.
func TestALockoutDrill(t *testing.T) {
	t.Parallel()
	for _, broken := range []string{
		"drop function ringfence_private.admit()",
		"drop function ringfence.attach(bigint, text, bigint, text, text)",
		"drop function ringfence.enter(text, bigint, text, text)",
		"drop function ringfence.refuse cascade",
		"alter table ringfence_private.mark rename to lost",
		"drop table ringfence_private.session cascade",
		"truncate ringfence_private.gate, ringfence_private.session",
		"drop view ringfence_private.standing cascade",
		"drop schema ringfence, ringfence_private cascade",
		"alter schema ringfence rename to ringfence_lost",
		"alter schema ringfence_private rename to ringfence_lost",
		"create or replace function ringfence_private.admit() returns void language plpgsql as " +
			"$$ begin raise 'another version'; end $$",
	} {
		t.Run(broken, func(t *testing.T) {
			d := direct(t, false)
			d.sql(t, broken)
			if _, err := d.logIn(t, "app", "-c fence.orders=5"); err == nil &&
				!strings.HasPrefix(broken, "drop function ringfence.refuse") {
				t.Error("a role on the list gets in")
			}
			d.wantIn(t, guardRole, "")
			c := d.wantIn(t, "postgres", "")
			execute(t, c, "drop event trigger ringfence_login")
			d.wantIn(t, "app", "")
		})
	}
}

// Whoever drops the schemas does not switch direct sessions off: the mark is lost, and a deposed
// leader must not get in.
func TestTheTriggerOutlivesTheSchemas(t *testing.T) {
	t.Parallel()
	d := direct(t, false)
	const drop = "drop schema ringfence, ringfence_private cascade"
	d.sql(t, drop)
	d.wantRefused(t, "-c fence.orders=5", "RF005", "the schema of Ringfence is gone")
	d.wantIn(t, guardRole, "")
	must.Succeed(t, Install(t.Context(), d.url("postgres"), guardRole))
	d.wantRefused(t, "-c fence.orders=5", "RF002", "none of a resource with a mark")
	d.lead(t, claimed(7))
	d.wantIn(t, "app", "-c fence.orders=7")
	d.wantRefused(t, "-c fence.orders=5", "RF001", "stale")
	d.switchTo(t, true, "app")
	d.sql(t, drop)
	d.wantIn(t, "app", "-c fence.orders=5") // a trial fences nothing
}

func TestDirectSaysWhatItCannotDo(t *testing.T) {
	t.Parallel()
	d := led(t)
	a := d.authorizer(t)
	for role, says := range map[string]string{
		"postgres": "is a superuser", "nobody_has_it": "does not exist",
	} {
		if !d.hasLoginTriggers(t) {
			says = "Postgres 17"
		}
		err := a.Direct(t.Context(), []string{role}, false)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", role, err)
		}
	}
}
