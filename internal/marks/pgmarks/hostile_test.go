package pgmarks

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/test/must"
)

func claimed(token fence.Token) fence.Claim {
	return fence.Claim{Resource: "orders", Token: token, Issuer: "zk:a", Holder: "host"}
}

func execute(t *testing.T, c *pgx.Conn, statement string, args ...any) {
	t.Helper()
	if _, err := c.Exec(t.Context(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func TestARaiseIsDurableWhateverTheDefaultsAre(t *testing.T) {
	t.Parallel()
	d := installed(t)
	for setting, want := range map[string]string{
		"off": "on", "local": "on", "remote_write": "on", "on": "on",
		"remote_apply": "remote_apply",
	} {
		c := d.connect(t, guardRole)
		for _, call := range []string{
			"select * from ringfence.raise('orders', 5, 'zk:a', 'host', '', (select basis " +
				"from ringfence.look('orders')))",
			"select * from ringfence.adopt('stock', 5, 'zk:a', 'host', 'me')",
		} {
			execute(t, c, "set synchronous_commit = "+setting)
			execute(t, c, "begin")
			execute(t, c, call)
			var got string
			if err := c.QueryRow(t.Context(),
				"select current_setting('synchronous_commit')").Scan(&got); err != nil {
				t.Fatal(err)
			}
			if got != want {
				t.Errorf("%s under %s commits with %s, want %s", call, setting, got, want)
			}
			execute(t, c, "commit")
		}
	}
}

func TestTheFunctionsRefuseIsolationLevelsThatWouldShowAnOldMark(t *testing.T) {
	t.Parallel()
	d := installed(t)
	c := d.connect(t, guardRole)
	for _, level := range []string{"repeatable read", "serializable"} {
		for _, call := range []string{
			"select ringfence.register(1, now(), ringfence.run(), '{orders}', '{5}', array[''], 'zk:a')",
			"select ringfence.raise('orders', 5, 'zk:a', 'host', '', (select basis " +
				"from ringfence.look('orders')))",
			"select ringfence.revoke('orders', 5, 'zk:a', 1000)",
			"select ringfence.adopt('orders', 5, 'zk:a', 'host', 'me')", "select ringfence.sweep()",
		} {
			execute(t, c, "begin isolation level "+level)
			if _, err := c.Exec(t.Context(), call); err == nil ||
				!strings.Contains(err.Error(), "READ COMMITTED") {
				t.Errorf("%s under %s: %v", call, level, err)
			}
			execute(t, c, "rollback")
		}
	}
	d.sql(t, "alter database "+d.name+" set default_transaction_isolation = 'serializable'; "+
		"alter database "+d.name+" set default_transaction_read_only = on")
	if _, err := raiseTo(t.Context(), d.open(t, Options{}), claimed(5)); err != nil {
		t.Errorf("the store fails under these defaults of the database: %v", err)
	}
}

// A raise must wait for a registration that has checked the mark and has not committed yet.
// Otherwise the raise would not find it in the list.
func TestARaiseWaitsForARegistrationThatHasChecked(t *testing.T) {
	t.Parallel()
	d := installed(t)
	s := d.open(t, Options{})
	_, err := raiseTo(t.Context(), s, claimed(5))
	must.Succeed(t, err)
	registering := d.connect(t, guardRole)
	execute(t, registering, "begin")
	var step string
	const register = `select step
	    from ringfence.register($1, now(), ringfence.run(), '{orders}', '{5}', array[''], 'zk:a')`
	err = registering.QueryRow(t.Context(), register, registering.PgConn().PID()).Scan(&step)
	if err != nil || step != "admitted" {
		t.Fatalf("%s, %v", step, err)
	}
	raised := make(chan error, 1)
	go func() {
		_, err := raiseTo(context.WithoutCancel(t.Context()), s, claimed(7))
		raised <- err
	}()
	d.waits(t, "ringfence.raise", raised)
	execute(t, registering, "commit")
	must.Succeed(t, <-raised)
	if n := d.list(t, "select count(*)::text from ringfence_private.session"); n[0] != "1" {
		t.Errorf("%s sessions are recorded, want 1", n[0])
	}
}

// waits fails the test when a call returns instead of waiting for a lock.
func (d database) waits(t *testing.T, call string, returned <-chan error) {
	t.Helper()
	for {
		select {
		case err := <-returned:
			t.Fatalf("%s did not wait: %v", call, err)
		default:
		}
		if d.list(t, `select count(*)::text from pg_stat_activity where wait_event_type = 'Lock'
		    and query like '%' || $1 || '%' and datname = current_database()`, call)[0] == "1" {
			return
		}
	}
}

// With a shared lock, registrations pass each other while a raise waits for all of them. Then
// clients of an old leader that reconnect in a storm keep the new one out: 32 connections were
// enough to block a raise for good.
func TestARegistrationDoesNotOvertakeARaiseThatWaits(t *testing.T) {
	t.Parallel()
	d := installed(t)
	s := d.open(t, Options{})
	_, err := raiseTo(t.Context(), s, claimed(5))
	must.Succeed(t, err)
	d.revokeOnce(t, claimed(5))
	const register = "select step from ringfence.register($1, now(), ringfence.run(), " +
		"'{orders}', '{5}', array[''], 'zk:a')"
	first, second := d.connect(t, guardRole), d.connect(t, guardRole)
	execute(t, first, "begin")
	execute(t, first, register, first.PgConn().PID())
	raised, registered := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := raiseTo(context.WithoutCancel(t.Context()), s, claimed(7))
		raised <- err
	}()
	d.waits(t, "ringfence.raise", raised)
	var step string
	go func() {
		registered <- second.QueryRow(context.WithoutCancel(t.Context()), register,
			second.PgConn().PID()).Scan(&step)
	}()
	d.waits(t, "ringfence.register", registered)
	execute(t, first, "commit")
	must.Succeed(t, <-raised)
	if err := <-registered; err != nil || step != "stale" {
		t.Errorf("the later registration: %s, %v", step, err)
	}
}

func TestARegistrationThatWaitsForARaiseSeesItsMark(t *testing.T) {
	t.Parallel()
	d := installed(t)
	s := d.open(t, Options{})
	_, err := raiseTo(t.Context(), s, claimed(5))
	must.Succeed(t, err)
	raising := d.connect(t, guardRole)
	execute(t, raising, "begin")
	execute(t, raising,
		"select ringfence.raise('orders', 7, 'zk:a', 'host', '', (select basis "+
			"from ringfence.look('orders')))")
	app := d.connect(t, "app")
	sess, err := identify(t.Context(), app)
	must.Succeed(t, err)
	registered := make(chan error, 1)
	go func() {
		_, err := s.Register(context.WithoutCancel(t.Context()), sess, []fence.Claim{claimed(5)})
		registered <- err
	}()
	d.waits(t, "ringfence.register", registered)
	execute(t, raising, "commit")
	if err := <-registered; err == nil || !strings.Contains(err.Error(), "stale") {
		t.Errorf("got %v", err)
	}
}

// An application role that may create functions must not get them executed by the guard's role or
// the operator.
func TestFunctionsThatShadowBuiltInOnesAreNotCalled(t *testing.T) {
	t.Parallel()
	d := bare(t)
	d.sql(t, `create schema evil authorization app;
	    create table public.caught (who text, what text);
	    grant insert on caught to public; grant usage on schema evil to public`)
	app := d.connect(t, "app")
	for _, f := range []struct{ name, args, returns, value string }{
		{"pg_advisory_xact_lock", "integer", "void", ""}, {"pg_backend_pid", "", "integer", "1"},
		{"inet_client_port", "", "integer", "1"},
		{"pg_is_in_recovery", "", "boolean", "false"}, {"current_setting", "text", "text", "'0'"},
		{"pg_has_role", "name, text, text", "boolean", "true"},
		{"clock_timestamp", "", "timestamptz", "'epoch'"},
		{"pg_advisory_xact_lock", "bigint", "void", ""},
		{"to_regclass", "text", "regclass", "null"},
	} {
		for _, schema := range []string{"public", "evil"} {
			value := ""
			if f.value != "" {
				value = "return " + f.value + ";"
			}
			execute(t, app, "create function "+schema+"."+f.name+"("+f.args+") returns "+f.returns+
				` language plpgsql as $$ begin
			    insert into public.caught values (current_user, '`+f.name+`'); `+value+` end $$`)
		}
	}
	for _, path := range []string{"public", "evil, pg_catalog", "pg_temp, public, pg_catalog"} {
		d.sql(t, "alter database "+d.name+" set search_path = "+path)
		if err := Install(t.Context(), d.url("postgres"), guardRole); err != nil {
			t.Errorf("install under search_path %s: %v", path, err)
		}
		s := d.open(t, Options{})
		if err := s.Probe(t.Context()); err != nil {
			t.Errorf("probe under search_path %s: %v", path, err)
		}
		c := d.connect(t, "app")
		sess, err := identify(t.Context(), c)
		if err == nil {
			_, err = s.Register(t.Context(), sess, []fence.Claim{claimed(5)})
		}
		if err != nil {
			t.Errorf("register under search_path %s: %v", path, err)
		}
	}
	const calls = "select who || ' called ' || what from public.caught group by who, what"
	for _, caught := range d.list(t, calls) {
		t.Error(caught)
	}
}

func TestAnApplicationRoleMayOnlyCheckItsAdmissionEnterAndAttach(t *testing.T) {
	t.Parallel()
	d := installed(t)
	app := d.connect(t, "app")
	const functions = `select oid::regprocedure::text from pg_proc
	    where pronamespace = 'ringfence'::regnamespace`
	const tables = `select oid::regclass::text from pg_class
	    where relnamespace = 'ringfence_private'::regnamespace and relkind = 'r'`
	public := []string{"holds", "enter", "is_open", "attach", "backend_identity", "own_start", "run",
		"version"}
	for _, f := range d.list(t, functions) {
		var may bool
		const privilege = "select has_function_privilege($1, 'execute')"
		must.Succeed(t, app.QueryRow(t.Context(), privilege, f).Scan(&may))
		name, _, _ := strings.Cut(strings.TrimPrefix(f, "ringfence."), "(")
		if may != slices.Contains(public, name) {
			t.Errorf("app may execute %s: %v, want %v", f, may, !may)
		}
	}
	const privileges = `select has_table_privilege($1, $2,
	    'select, insert, update, delete, truncate, references, trigger')::text`
	for _, relation := range d.list(t, tables) {
		for _, role := range []string{"app", guardRole} {
			if d.list(t, privileges, role, relation)[0] != "false" {
				t.Errorf("%s has a privilege on %s", role, relation)
			}
		}
	}
	for _, loose := range d.list(t, functions+`
	    and (proconfig is null or not proconfig @> array['search_path=pg_catalog, pg_temp'])`) {
		t.Errorf("%s has no pinned search_path", loose)
	}
}
