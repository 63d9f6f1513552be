package pgmarks

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/pgtest"
)

// authorized returns a realm where authorization is on and nobody may claim anything. It has the
// roles app, stranger, team, and member, which is a member of team and does not inherit from it.
func authorized(t *testing.T) (*realm, *Authorizer) {
	t.Helper()
	r := led(t)
	pgtest.Role(t, r.url("postgres"), "stranger", "login noinherit")
	pgtest.Role(t, r.url("postgres"), "team", "login noinherit")
	pgtest.Role(t, r.url("postgres"), "member", "login noinherit in role team")
	r.sql(t, "grant all on entry to public")
	a := r.authorizer(t)
	must.Succeed(t, a.Authorize(t.Context(), true))
	return r, a
}

func (d database) authorizer(t *testing.T) *Authorizer {
	t.Helper()
	a, err := OpenAuthorizer(t.Context(), d.url("postgres"))
	must.Succeed(t, err)
	t.Cleanup(a.Close)
	return a
}

func allow(t *testing.T, a *Authorizer, role string, all ...marks.Pattern) {
	t.Helper()
	must.Succeed(t, a.Allow(t.Context(), role, all...))
}

// claimsAs opens a session of a role and has it admitted where its token leads.
func (r *realm) claimsAs(t *testing.T, role string, c fence.Claim) (*pgx.Conn, error) {
	t.Helper()
	conn := r.connect(t, role)
	s, err := identify(t.Context(), conn)
	must.Succeed(t, err)
	a := &marks.Admission{Store: r.s, Authority: leader(c.Token)}
	return conn, a.Admit(t.Context(), s, marks.Present(c))
}

// notAuthorized checks a refusal, and what a program can read in it.
func notAuthorized(t *testing.T, what string, err error, c fence.Claim, role string) {
	t.Helper()
	var r *fence.Refusal
	if !errors.Is(err, fence.ErrNotAuthorized) || !errors.As(err, &r) {
		t.Errorf("%s: got %v", what, err)
		return
	}
	if r.Claim.Resource != c.Resource || r.Claim.Token != c.Token ||
		!strings.Contains(r.Message, role) ||
		!strings.Contains(r.Hint, "guard allow "+role+" "+string(c.Resource)) || r.Detail == "" {
		t.Errorf("%s: %+v", what, r)
	}
}

func TestOnlyAllowedRolesAndTheirMembersClaim(t *testing.T) {
	t.Parallel()
	r, a := authorized(t)
	allow(t, a, "team", "orders", "st*k")
	older, newer := claimed(5), claimed(7)
	_, err := r.claimsAs(t, "team", older)
	must.Succeed(t, err)
	leading, err := r.claimsAs(t, "member", older)
	if err != nil {
		t.Fatalf("a member of an allowed role: %v", err)
	}

	// The stranger's token is higher and leads, and the mark still stays where it is.
	_, err = r.claimsAs(t, "stranger", newer)
	notAuthorized(t, "an admission", err, newer, "stranger")
	if m, err := r.s.Marks(t.Context()); err != nil || m[0].Token != 5 {
		t.Errorf("the mark after the refusal: %+v, %v", m, err)
	}
	if err := leading.Ping(t.Context()); err != nil {
		t.Errorf("the rightful session was ended: %v", err)
	}
	both := []fence.Claim{claimed(5), {Resource: "other", Token: 5, Issuer: "zk:a"}}
	s, err := identify(t.Context(), leading)
	must.Succeed(t, err)
	_, err = r.s.Register(t.Context(), s, both)
	notAuthorized(t, "one of two resources", err, both[1], "member")
	stock := fence.Claim{Resource: "stock", Token: 5, Issuer: "zk:a", Holder: "a"}
	if _, err := r.claimsAs(t, "member", stock); err != nil {
		t.Errorf("a resource that fits a pattern: %v", err)
	}

	// transactions and attached sessions
	r.lead(t, older)
	for _, level := range levels {
		notAuthorized(t, "a transaction", try(t, r.connect(t, "stranger"), older, level), older,
			"stranger")
		if err := try(t, r.connect(t, "member"), older, level); err != nil {
			t.Errorf("a member's transaction: %v", err)
		}
	}
	_, err = Attach(t.Context(), r.connect(t, "stranger"), older)
	notAuthorized(t, "attaching", err, older, "stranger")
	if ok, err := Attach(t.Context(), r.connect(t, "member"), older); !ok || err != nil {
		t.Errorf("a member attaches: %v, %v", ok, err)
	}

	if n, err := a.Forbid(t.Context(), "team", "orders"); n != 1 || err != nil {
		t.Errorf("forbid: %d, %v", n, err)
	}
	_, err = r.claimsAs(t, "member", older)
	notAuthorized(t, "what was forbidden", err, older, "member")
	must.Succeed(t, a.Authorize(t.Context(), false))
	if _, err := r.claimsAs(t, "stranger", older); err != nil {
		t.Errorf("with authorization off: %v", err)
	}
}

// The role is the one that has logged in. Nothing that the session sets makes it another.
func TestASessionCannotPretendToBeAnotherRole(t *testing.T) {
	t.Parallel()
	r, a := authorized(t)
	allow(t, a, "team", "orders_a")
	c := fence.Claim{Resource: "ordersxa", Token: 5, Issuer: "zk:a", Holder: "a"}
	r.lead(t, c)
	r.lead(t, claimed(5))
	allow(t, a, "app", "orders")
	for _, setting := range []string{
		"set standard_conforming_strings = off", "set search_path = public",
		"set ringfence.orders = 'entered 5 zk:a'", "set application_name = 'app'", "set role none",
	} {
		conn := r.connect(t, "stranger")
		execute(t, conn, setting)
		notAuthorized(t, setting, try(t, conn, claimed(5), pgx.ReadCommitted), claimed(5), "stranger")
	}
	conn := r.connect(t, "team")
	execute(t, conn, "set standard_conforming_strings = off")
	notAuthorized(t, "_ in a pattern", try(t, conn, c, pgx.ReadCommitted), c, "team")
	if _, err := conn.Exec(t.Context(), "set session authorization app"); err == nil {
		t.Error("an ordinary role has changed its session's user")
	}
	// A role that may become an allowed one is a member of it; one that has become another is not.
	conn = r.connect(t, "member")
	execute(t, conn, "set role team")
	notAuthorized(t, "set role", try(t, conn, claimed(5), pgx.ReadCommitted), claimed(5), "member")
}

func TestPatternsFitTheSameInThisProgramAndInTheDatabase(t *testing.T) {
	t.Parallel()
	r, a := authorized(t)
	conn := r.connect(t, "postgres")
	for _, pattern := range []string{"orders", "orders_*", "*", "o*s", "*_eu", "a*b*c", "orders_"} {
		p, err := marks.ParsePattern(pattern)
		must.Succeed(t, err)
		execute(t, conn, "delete from ringfence_private.allowed")
		allow(t, a, "stranger", p)
		for _, resource := range []fence.Resource{
			"orders", "ordersx", "orders_", "orders_eu", "xorders", "os", "abc", "axbxc", "ab",
			"orders_eu_x",
		} {
			var forbidden *string
			if err := conn.QueryRow(t.Context(),
				"select ringfence.forbidden('stranger'::regrole, array[$1])",
				string(resource)).Scan(&forbidden); err != nil {
				t.Fatal(err)
			}
			if p.Fits(resource) != (forbidden == nil) {
				t.Errorf("%s fits %s here: %v, in the database: %v", resource, p, p.Fits(resource),
					forbidden == nil)
			}
		}
	}
	for _, bad := range []string{"", "Orders", "_a", "a-b", "a.*", "a' or true",
		strings.Repeat("a", 49)} {
		if _, err := marks.ParsePattern(bad); err == nil {
			t.Errorf("%q is taken for a pattern", bad)
		}
	}
}

// A row that allows something is of one role in one database. What came out of a dump, out of a
// copy of the database, or names a role that was made again, allows nothing.
func TestACopyOfWhatIsAllowedAllowsNothing(t *testing.T) {
	t.Parallel()
	for name, copied := range map[string]func(t *testing.T, r *realm){
		"restored from a dump": func(t *testing.T, r *realm) { r.dump(t)() },
		"a new role of the same name": func(t *testing.T, r *realm) {
			r.sql(t, "revoke all on entry from temp; drop role temp; create role temp login; grant all on "+
				"entry to temp")
		},
		"another role with this name": func(t *testing.T, r *realm) {
			r.sql(t, "alter role temp rename to temp2; create role temp login; grant all on entry to temp")
			t.Cleanup(func() { r.sql(t, "drop owned by temp2; drop role temp2") })
		},
		"a copy of the database": func(t *testing.T, r *realm) {
			r.s.Close()
			server, original, copied := database{r.pg, "postgres"}, r.name, r.name+"_copy"
			others := fmt.Sprintf("from pg_stat_activity where datname = '%s'", original)
			server.sql(t, "select pg_terminate_backend(pid) "+others)
			server.until(t, "select (count(*) = 0)::text "+others)
			server.sql(t, fmt.Sprintf("create database %s template %s", copied, original))
			t.Cleanup(func() {
				server.sql(t, "drop database "+copied+" with (force)")
				r.name = original
			})
			r.name = copied
			r.s = r.open(t, Options{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := led(t)
			r.sql(t, `do $$ begin
			    if exists (select from pg_roles where rolname = 'temp') then drop role temp; end if;
			    create role temp login;
			  end $$; grant all on entry to temp`)
			t.Cleanup(func() { r.sql(t, "drop owned by temp; drop role temp") })
			a := r.authorizer(t)
			allow(t, a, "temp", "orders")
			must.Succeed(t, a.Authorize(t.Context(), true))
			before, err := r.claimsAs(t, "temp", claimed(5))
			must.Succeed(t, err)
			_ = before.Close(t.Context())
			r.over(t, before.PgConn().PID(), claimed(5))
			a.Close()
			copied(t, r)

			_, err = r.claimsAs(t, "temp", claimed(7))
			notAuthorized(t, "afterwards", err, claimed(7), "temp")
			again := r.authorizer(t)
			defer again.Close()
			all, err := again.Authorization(t.Context())
			if err != nil || !all.On || len(all.Allowed) != 1 || all.Allowed[0].Why == "" {
				t.Errorf("what the operator sees: %+v, %v", all, err)
			}
			allow(t, again, "temp", "orders")
			if err := Install(t.Context(), r.url("postgres"), guardRole); err != nil { // a copy needs it
				t.Fatal(err)
			}
			if conn, err := r.claimsAs(t, "temp", claimed(7)); err != nil {
				t.Errorf("allowed again: %v", err)
			} else {
				_ = conn.Close(t.Context())
			}
		})
	}
}

func TestTheGuardsRoleMayNotChangeWhoMayClaim(t *testing.T) {
	t.Parallel()
	d := installed(t)
	conn := d.connect(t, guardRole)
	for _, statement := range []string{
		"select ringfence.allow('app', 'orders')", "select ringfence.forbid('app', null)",
		"select ringfence.authorize(false)",
	} {
		if _, err := conn.Exec(t.Context(), statement); sqlstate(err) != "42501" {
			t.Errorf("%s: %v", statement, err)
		}
	}
	a := d.authorizer(t)
	if err := a.Allow(t.Context(), "nobody_such", "orders"); err == nil ||
		!strings.Contains(err.Error(), "does not exist") {
		t.Errorf("a role that does not exist: %v", err)
	}
}
