package sqlterms

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/internal/test/must"
)

// Before Postgres looks at privileges it locks what a statement names. So a role that may only
// connect must not be able to name a table of ours, and what it can name must not be locked by
// anybody's term, election or transaction.
func TestAStrangerLocksNothingThatOthersNeed(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	admin, stranger := s.connect("postgres"), s.connect("stranger")
	s.exec(admin, "create table theirs (n serial); alter table theirs owner to stranger; grant "+
		"create on schema public to stranger; grant create on database "+s.name+" to stranger")
	t.Cleanup(func() { _, _ = admin.Exec(context.WithoutCancel(s.ctx), "drop owned by stranger") })
	first := s.ready(s.connect("app"), "take('orders', 'host-1', 1)")
	inside, err := s.begin(s.connect("app"), "", first.Pass) // it holds the locks of enter
	must.Succeed(t, err)
	names := func(sql string) []string {
		rows, err := admin.Query(s.ctx, sql)
		must.Succeed(t, err)
		all, err := pgx.CollectRows(rows, pgx.RowTo[string])
		must.Succeed(t, err)
		return all
	}
	var attempts []string
	for _, r := range names(
		`select c.oid::regclass::text from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname like 'ringfence%' and c.relkind <> 'v'`,
	) {
		for _, statement := range []string{
			"lock table %s in access exclusive mode", "lock table %s in access share mode", "prepare p as " +
				"select from %s",
			"prepare p as update %s set token = 1", "prepare p as delete from %s", "prepare p as select " +
				"from %s for update",
			"explain select from %s", "declare c cursor for select from %s", "copy %s to stdout",
			"create rule r as on insert to %s do nothing", "create trigger t before insert on %s execute " +
				"function suppress_redundant_updates_trigger()",
			"create index on %s ((1))", "create policy p on %s", "create statistics st on a, b from %s",
			"alter table %s add x integer",
			"alter table %s enable row level security", "comment on table %s is ''", "comment on type %s " +
				"is ''", "truncate %s", "drop table %s",
			"reindex table %s", "cluster %s", "refresh materialized view %s", "create view public.v as " +
				"select from %s", "create table public.heir () inherits (%s)",
			"create table public.like_it (like %s)", "alter table theirs inherit %s", "alter table theirs " +
				"add foreign key (n) references %s",
			"create table public.typed of %s", "create function public.f() returns setof %s language sql " +
				"as ''", "alter sequence theirs_n_seq owned by %s.x",
			"select nextval('%s')", "grant select on %s to stranger", "create publication p for table %s",
		} {
			attempts = append(attempts, fmt.Sprintf(statement, r))
		}
	}
	for _, f := range names(
		`select p.oid::regprocedure::text from pg_proc p join pg_namespace n on n.oid = p.pronamespace where n.nspname like 'ringfence%'`,
	) {
		for _, statement := range []string{"comment on function %s is ''", "alter function %s cost 1",
			"drop function %s"} {
			attempts = append(attempts, fmt.Sprintf(statement, f))
		}
	}
	for _, schema := range []string{"ringfence", "ringfence_private"} {
		attempts = append(attempts, "create table "+schema+".mine ()", "comment on schema "+schema+
			" is ''", "drop schema "+schema, "alter schema "+schema+" rename to mine")
	}
	for _, a := range attempts {
		tx := "begin; "
		if strings.HasPrefix(a, "cluster") {
			tx = ""
		}
		_, err := stranger.PgConn().Exec(s.ctx, tx+a).ReadAll()
		pg, refused := errors.AsType[*pgconn.PgError](err)
		switch named := strings.Contains(a, "ringfence_private."); {
		case !refused:
			t.Errorf("a stranger may: %s: %v", a, err)
		case named && !strings.Contains(pg.Message, "permission denied for schema ringfence_private"):
			t.Errorf("%s: %s", a, pg.Message) // the table was found, and so it was locked
		case pg.Code != "42501" && pg.Code != "42809" && pg.Code != "42P13":
			// a composite type is no table
			t.Errorf("%s: %s", a, pg.Message)
		}
		s.exec(stranger, "rollback")
	}
	second := s.ready(s.connect("second"), "take('orders', 'host-2', 2)")
	if _, err := inside.Exec(s.ctx, "select 1"); err == nil {
		t.Error("the older transaction goes on")
	}
	if _, err := s.begin(s.connect("second"), "", second.Pass); err != nil {
		t.Error(err)
	}
}
