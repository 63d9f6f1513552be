package seal

import (
	"slices"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/marks/pgmarks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// holes are ways round a seal: how to make one, what check calls it, how to close it again.
var holes = []struct{ open, finding, closed string }{
	{"create table audit ()", "table-unsealed:public.audit", "drop table audit"},
	{`create table "Odd One" ()`, `table-unsealed:public."Odd One"`, `drop table "Odd One"`},
	{"create table day (d int) partition by list (d)", "table-unsealed:public.day", "drop table day"},
	{"create table child () inherits (entry)", "partition-unsealed:public.child", "drop table child"},
	{
		"create table base (id bigint not null, token bigint); alter table entry inherit base",
		"parent-unsealed:public.base", "alter table entry no inherit base; drop table base",
	},
	{
		"create table base (id bigint not null, token bigint); alter table entry inherit base; " +
			"insert into ringfence_private.sealed (schema_name, table_name, resource) values ('public', " +
			"'base', 'stock'); create trigger ringfence_seal before insert or update or delete or " +
			"truncate on base execute function ringfence.seal('stock'); alter table base enable always " +
			"trigger ringfence_seal",
		"parent-unsealed:public.base",
		"alter table entry no inherit base; drop table base; delete from ringfence_private.sealed " +
			"where table_name = 'base'",
	},
	{
		"alter table entry disable trigger ringfence_seal", "seal-changed:public.entry",
		"alter table entry enable always trigger ringfence_seal",
	},
	{
		"alter table entry enable trigger ringfence_seal", "seal-changed:public.entry",
		"alter table entry enable always trigger ringfence_seal",
	},
	{
		`drop trigger ringfence_seal on entry; create trigger ringfence_seal before insert on entry
		    execute function ringfence.seal('orders'); alter table entry enable always trigger ringfence_seal`,
		"seal-changed:public.entry", protectEntry,
	},
	{
		`drop trigger ringfence_seal on entry; create trigger ringfence_seal
		    before insert or update or delete or truncate on entry
		    execute function ringfence.seal('stock'); alter table entry enable always trigger ringfence_seal`,
		"seal-lost:public.entry", protectEntry,
	},
	{
		`drop trigger ringfence_seal on entry; create trigger ringfence_seal
		    before insert or update or delete or truncate on entry
		    when (current_user <> 'app') execute function ringfence.seal('orders');
		    alter table entry enable always trigger ringfence_seal`,
		"seal-changed:public.entry", protectEntry,
	},
	{
		`drop trigger ringfence_seal on entry; create trigger ringfence_seal
		    before insert or update of id or delete or truncate on entry
		    execute function ringfence.seal('orders'); alter table entry enable always trigger ringfence_seal`,
		"seal-changed:public.entry", protectEntry,
	},
	{
		`drop trigger ringfence_seal on entry; create trigger ringfence_seal
		    before insert or update or delete or truncate on entry
		    execute function ringfence.seal('orders', 'stock'); alter table entry enable always trigger ringfence_seal`,
		"seal-lost:public.entry", protectEntry,
	},
	{
		`drop trigger ringfence_seal on entry; create trigger ringfence_seal
		    before insert or update or delete or truncate on entry
		    execute function ringfence.seal(); alter table entry enable always trigger ringfence_seal`,
		"seal-changed:public.entry", protectEntry,
	},
	{"drop trigger ringfence_seal on entry", "seal-lost:public.entry", protectEntry},
	{"alter table entry rename to moved", "seal-lost:public.entry",
		"alter table moved rename to entry"},
	{
		"create extension postgres_fdw; create server far foreign data wrapper postgres_fdw; " +
			"create foreign table distant () server far",
		"foreign-table:public.distant", "drop extension postgres_fdw cascade",
	},
	{"create sequence number; grant usage on sequence number to app", "sequence:public.number",
		"drop sequence number"},
	{"select lo_create(4711)", "large-objects:pg_largeobject", "select lo_unlink(4711)"},
	{"create role seal_boss superuser login", "superuser:seal_boss", "drop role seal_boss"},
	{
		"create role seal_heir login noinherit; grant postgres to seal_heir",
		"superuser:seal_heir", "drop role seal_heir",
	},
	{
		"create role seal_sets login noinherit; " + mayWrite("seal_sets"),
		"mark-writer:seal_sets", "drop owned by seal_sets; drop role seal_sets",
	},
	{
		"create role seal_guards; create role seal_guest login noinherit; grant seal_guards to " +
			"seal_guest; grant execute on all functions in schema ringfence to seal_guards",
		"guard-role:seal_guest", "drop owned by seal_guards; drop role seal_guest, seal_guards",
	},
	{
		"create role seal_builders; create role seal_guest login noinherit; grant seal_builders to " +
			"seal_guest; grant create on schema public to seal_builders",
		"ddl:schema public", "drop owned by seal_builders; drop role seal_guest, seal_builders",
	},
	{
		"create role seal_counters; create role seal_guest login noinherit; grant seal_counters to " +
			"seal_guest; create sequence number; grant update on sequence number to seal_counters",
		"sequence:public.number", "drop sequence number; drop role seal_guest, seal_counters",
	},
	{"create extension dblink", "extension:dblink", "drop extension dblink"},
	{
		"create language seal_untrusted handler plpgsql_call_handler",
		"extension:seal_untrusted", "drop language seal_untrusted",
	},
	{
		"create role seal_files login; grant pg_write_server_files to seal_files",
		"server-access:seal_files", "drop role seal_files",
	},
	{
		"create role seal_programs login; grant pg_execute_server_program to seal_programs",
		"server-access:seal_programs", "drop role seal_programs",
	},
	{
		"create role seal_owner; create role seal_member login; grant seal_owner to seal_member; " +
			"alter table entry owner to seal_owner",
		"table-owner:seal_member", "alter table entry owner to postgres; drop role seal_member, " +
			"seal_owner",
	},
	{
		"create role seal_writer login; grant insert on ringfence_private.session to seal_writer; " +
			"grant usage on schema ringfence to seal_writer",
		"mark-writer:seal_writer", "drop owned by seal_writer; drop role seal_writer",
	},
	{"grant trigger on entry to app", "trigger-maker:app", "revoke trigger on entry from app"},
	{
		"create role seal_hook; create role seal_guest login noinherit; grant seal_hook to seal_guest; " +
			"create function hook() returns trigger language plpgsql as 'begin return new; end'; alter " +
			"function hook() owner to seal_hook; create trigger zz before insert on entry for each row " +
			"execute function hook()",
		"trigger-function:public.entry.zz", "drop function hook() cascade; drop role seal_guest, " +
			"seal_hook",
	},
	{
		"create role seal_column login; grant update (token) on ringfence_private.mark to seal_column",
		"mark-writer:seal_column", "drop owned by seal_column; drop role seal_column",
	},
	{
		"create role seal_files login; grant execute on function lo_export(oid, text) to seal_files",
		"server-access:seal_files", "drop owned by seal_files; drop role seal_files",
	},
	{
		"create role seal_records login; grant execute on function ringfence.forget(text, integer[], " +
			"timestamptz[]) to seal_records",
		"guard-role:seal_records", "drop owned by seal_records; drop role seal_records",
	},
	{
		"create role seal_all login; " + mayWrite("seal_all"),
		"mark-writer:seal_all", "drop owned by seal_all; drop role seal_all",
	},
	{
		"create role seal_maker login; grant create, usage on schema ringfence to seal_maker",
		"mark-writer:seal_maker", "drop owned by seal_maker; drop role seal_maker",
	},
	{
		"create role seal_makers; create role seal_guest login noinherit; grant seal_makers to " +
			"seal_guest; create function ringfence.release(text) returns void language sql as ''; alter " +
			"function ringfence.release(text) owner to seal_makers",
		"mark-writer:seal_guest", "drop owned by seal_makers; drop role seal_guest, seal_makers",
	},
	{
		"create role seal_maker login; create function ringfence.seal(text) returns void language sql " +
			"as ''; create function ringfence.server(text) returns void language sql as ''; alter " +
			"function ringfence.seal(text) owner to seal_maker; alter function ringfence.server(text) " +
			"owner to seal_maker",
		"mark-writer:seal_maker", "drop owned by seal_maker; drop role seal_maker",
	},
	{
		"create role seal_second login; " +
			"grant execute on all functions in schema ringfence to seal_second",
		"guard-role:seal_second", "drop owned by seal_second; drop role seal_second",
	},
	{"grant create on schema public to app", "ddl:schema public", "revoke create on schema public " +
		"from app"},
	{
		"do $$ begin execute 'grant create on database ' || current_database() || ' to app'; end $$",
		"ddl:database DATABASE", "do $$ begin execute 'revoke create on database ' || " +
			"current_database() || ' from app'; end $$",
	},
	{
		"create role seal_plain; alter function ringfence.seal() owner to seal_plain",
		"seal-blind:seal_plain",
		"alter function ringfence.seal() owner to postgres; drop role seal_plain",
	},
	{
		"create subscription far connection 'host=127.0.0.1 port=1' publication p with (connect = false)",
		"subscription:far",
		"alter subscription far set (slot_name = none); drop subscription far",
	},
}

// mayWrite lets a role write all tables. Postgres 13 has no role for that.
func mayWrite(role string) string {
	return `do $$ begin
	  if to_regrole('pg_write_all_data') is null then
	    grant usage on schema ringfence_private to ` + role + `;
	    grant all on all tables in schema ringfence_private to ` + role + `;
	  else
	    grant pg_write_all_data to ` + role + `;
	  end if;
	end $$`
}

const protectEntry = `drop trigger if exists ringfence_seal on entry; create trigger ringfence_seal
    before insert or update or delete or truncate on entry execute function ringfence.seal('orders');
    alter table entry enable always trigger ringfence_seal`

func TestCheckFindsEveryHole(t *testing.T) {
	r := newRealm(t)
	r.sql("revoke create on schema public from public") // as Postgres 15 has it by default
	clean := r.found()
	for _, h := range holes {
		finding := strings.Replace(h.finding, "DATABASE", r.name, 1)
		r.sql(h.open)
		r.finds(finding, true)
		r.sql(h.closed)
		r.finds(finding, false)
	}
	if now := r.found(); !slices.Equal(now, clean) {
		t.Errorf("all holes are closed, and check finds\n%q, before\n%q", now, clean)
	}
	for _, want := range []string{"superuser:postgres", "network:local"} {
		if !slices.Contains(clean, want) {
			t.Errorf("%s is not in %q", want, clean)
		}
	}
}

// Before Postgres 16 such a role can grant itself whatever no superuser has.
func TestCheckFindsRolesThatMakeRoles(t *testing.T) {
	r := newRealm(t)
	r.sql("create role seal_maker login createrole")
	defer r.sql("drop role seal_maker")
	c := r.connect("postgres")
	var version int
	if err := c.QueryRow(t.Context(),
		"select current_setting('server_version_num')::integer").Scan(&version); err != nil {
		t.Fatal(err)
	}
	r.finds("role-maker:seal_maker", version < 160000)
}

// A role writes also by what it becomes with SET ROLE, and by a privilege on one column.
func TestCheckNamesEveryRoleThatMayWrite(t *testing.T) {
	r := newRealm(t)
	r.sql("create schema shop; create table shop.stock (id bigint); create role seal_group; create " +
		"role seal_sets login noinherit; grant seal_group to seal_sets; grant delete on shop.stock to " +
		"seal_group; create role seal_column login; grant update (id) on shop.stock to seal_column")
	defer r.sql("drop owned by seal_group, seal_column; drop role seal_sets, seal_column, seal_group")
	report, err := Check(t.Context(), r.connect("postgres"), guardRole, "shop")
	must.Succeed(t, err)
	const want = "writes need no token; roles that may write: seal_column, seal_sets"
	if !slices.ContainsFunc(report.Findings, func(f Finding) bool {
		return f.Object == "shop.stock" && f.What == want
	}) {
		t.Errorf("%+v", report.Findings)
	}
}

func TestCheckComparesTheFunctionsOfASeal(t *testing.T) {
	for function, change := range map[string]string{
		"ringfence.seal()": "create or replace function ringfence.seal() returns trigger language " +
			"plpgsql security definer set search_path = pg_catalog, pg_temp as 'begin return null; end'",
		"ringfence.enter_as_claimed(text, text)": "alter function ringfence.enter_as_claimed(text, " +
			"text) reset search_path",
		"ringfence.enter(text, bigint, text, text)": "drop function ringfence.enter(text, bigint, " +
			"text, text)",
	} {
		r := newRealm(t)
		r.finds("function-changed:"+function, false)
		r.sql(change)
		r.finds("function-changed:"+function, true)
		r.install(pgmarks.Options{})
		r.finds("function-changed:"+function, false)
	}
}

func TestCheckFindsAGuardsRoleThatIsAProgramsToo(t *testing.T) {
	r := newRealm(t)
	r.finds("guard-role:"+guardRole, false)
	for grant, revoke := range map[string]string{
		"grant execute on function ringfence.take_term(text, text, bigint) to " + guardRole: "revoke " +
			"execute on function ringfence.take_term(text, text, bigint) from " + guardRole,
		"create table stock (); grant insert on stock to " + guardRole: "drop table stock",
	} {
		r.sql(grant)
		r.finds("guard-role:"+guardRole, true)
		r.sql(revoke)
		r.finds("guard-role:"+guardRole, false)
	}
}

func TestCheckLeavesLeadersTheirFunctions(t *testing.T) {
	r := newRealm(t)
	roles := pgmarks.Roles{Guard: guardRole, Leaders: []string{"app"}}
	_, err := roles.Install(t.Context(), r.pg.URL("postgres", r.name))
	must.Succeed(t, err)
	r.finds("guard-role:app", false)
}

// Before Postgres 15 only superusers set such parameters.
func TestCheckFindsRolesThatSetWhatTheServerLoads(t *testing.T) {
	r := newRealm(t)
	var version int
	if err := r.connect("postgres").QueryRow(t.Context(), "select "+
		"current_setting('server_version_num')::integer").Scan(&version); err != nil {
		t.Fatal(err)
	}
	if version < 150000 {
		t.Skip("the server has no privileges on parameters")
	}
	r.sql("create role seal_sets login; grant alter system on parameter shared_preload_libraries to " +
		"seal_sets")
	r.finds("server-access:seal_sets", true)
	r.sql("drop owned by seal_sets; drop role seal_sets")
	r.finds("server-access:seal_sets", false)
}

func TestCheckTakesTheSchemasThatAreNamed(t *testing.T) {
	r := newRealm(t)
	r.sql("create schema shop; create table shop.stock (); create table loose ()")
	for _, test := range []struct {
		schemas []string
		shop    bool
		public  bool
	}{{nil, false, true}, {[]string{"shop"}, true, false}, {[]string{"shop", "public"}, true, true}} {
		found := r.found(test.schemas...)
		if slices.Contains(found, "table-unsealed:shop.stock") != test.shop ||
			slices.Contains(found, "table-unsealed:public.loose") != test.public {
			t.Errorf("schemas %q: %q", test.schemas, found)
		}
	}
	c := r.connect("postgres")
	if _, err := Check(t.Context(), c, guardRole, "shpo"); err == nil {
		t.Error("a schema that does not exist is checked without a word")
	}
}

// An ordinary role sees less, and check says so.
func TestCheckSaysWhatItsRoleCannotSee(t *testing.T) {
	r := newRealm(t)
	c := r.connect(guardRole)
	report, err := Check(t.Context(), c, guardRole)
	must.Succeed(t, err)
	if !slices.ContainsFunc(report.Findings, func(f Finding) bool {
		return f.ID == "network-hidden"
	}) {
		t.Errorf("%+v", report)
	}
}

func TestCheckReadsWhoReachesTheServer(t *testing.T) {
	pg := serverstest.Postgres(t, servers.PostgresOptions{HBA: "local all all trust\n" +
		"host all all 127.0.0.1/32 trust\nhost sales app 10.1.0.0/16 md5\nhost postgres app,batch " +
		"10.2.0.0/16 md5\n" +
		"host all all 10.3.0.0/16 reject\nhost replication all 10.4.0.0/16 md5\n"})
	r := &realm{t: t, pg: pg, name: "postgres"}
	r.install(pgmarks.Options{})
	var got []string
	for _, f := range r.found() {
		if strings.HasPrefix(f, "network") {
			got = append(got, f)
		}
	}
	want := []string{"network:10.2.0.0/255.255.0.0", "network:127.0.0.1/255.255.255.255",
		"network:local"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAPoolerIsFound(t *testing.T) {
	r := newRealm(t)
	for url, want := range map[string]int{
		r.pg.URL("app", r.name): 0,
		serverstest.PgBouncer(t, r.pg, servers.PgBouncerOptions{}).URL("app", r.name): 1,
	} {
		c, err := pgmarks.Connect(t.Context(), url)
		must.Succeed(t, err)
		defer c.Close(t.Context())
		if found, err := Pooler(t.Context(), c); err != nil || len(found) != want {
			t.Errorf("%s: %+v, %v", url, found, err)
		}
	}
}

func TestAcceptedFindingsDoNotCount(t *testing.T) {
	r := Report{Findings: []Finding{
		{
			ID: "ddl", Object: "schema public",
		}, {ID: "ddl", Object: "schema shop"}, {ID: "superuser", Object: "postgres"},
	}}
	if unused := r.Accept([]string{"superuser", "ddl:schema shop", "pooler"}); !slices.Equal(unused,
		[]string{"pooler"}) {
		t.Errorf("unused: %q", unused)
	}
	if r.Open() != 1 || r.Findings[0].Accepted {
		t.Errorf("%+v", r)
	}
}

// A managed service may not let its administrator grant what a guard needs.
func TestCheckSaysWhatTheGuardsRoleLacks(t *testing.T) {
	r := newRealm(t)
	r.sql("create role seal_bare login")
	defer r.sql("drop owned by seal_bare; drop role seal_bare")
	for _, step := range []struct {
		grant       string
		blind, ends bool
	}{
		{"select", true, true},
		{"grant pg_monitor to seal_bare", false, true},
		{"grant app to seal_bare", false, true}, // there may be other roles that log in
		{"grant pg_signal_backend to seal_bare", false, false},
	} {
		r.sql(step.grant)
		report, err := Check(t.Context(), r.connect("postgres"), "seal_bare")
		must.Succeed(t, err)
		blind, ends := false, false
		for _, f := range report.Findings {
			if f.Object != "seal_bare" {
				continue
			}
			switch f.ID {
			case "guard-blind":
				blind = strings.Contains(f.Do, "GRANT pg_monitor TO seal_bare")
			case "guard-ends-few":
				ends = strings.Contains(f.Do, "GRANT pg_signal_backend TO seal_bare")
				if app := strings.Contains(f.What+",", " app,"); app == strings.Contains(step.grant, "app") {
					t.Errorf("after %s: %s", step.grant, f.What)
				}
			}
		}
		if blind != step.blind || ends != step.ends {
			t.Errorf("after %s: blind %t, ends few %t", step.grant, blind, ends)
		}
	}
}
