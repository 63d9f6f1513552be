package pgmarks

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/network/backoff"
	"github.com/ringfence/ringfence/internal/postgres/pgschema"
)

// Uninstall removes Ringfence from the database of a URL: marks and everything else in the schema
// ringfence, and the elections and documents that may be beside them. guard is the role of guards.
// The role of the URL owns the schemas, or is a superuser.
//
// It drops nothing while something still relies on it: a session or a transaction under a token, a
// guard, an election, a sealed table or another object of the user's. That is looked at a second
// time behind a lock on every table. Whoever is admitted, enters, campaigns, seals a table or
// installs has to write or lock one of these tables first. So it has either committed, and is seen,
// or it waits, and fails when the table is gone. One transaction drops all, so an error means that
// nothing was changed.
//
// What is dropped forgets the highest tokens that were accepted. If it is installed again later
// without a coordinator, the first token that comes is accepted, also that of a leader that was
// deposed before.
func Uninstall(
	ctx context.Context, url, guard string, o marks.Removing,
) (r marks.Removal, err error) {
	conn, err := Connect(ctx, url)
	if err != nil {
		return r, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for n := 1; ; n++ {
		r, err = uninstall(ctx, conn, guard, o)
		if !pgschema.Deadlocked(err) || n == pgschema.Tries {
			break
		}
		backoff.Pause(ctx, backoff.After(n, backoff.Min, time.Second))
	}
	if err != nil {
		return r, fmt.Errorf("nothing was changed: %w%s", err, uninstallHint(err))
	}
	return r, nil
}

func uninstallHint(err error) string {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	switch {
	case !ok:
		return ""
	case pg.Code == "55P03" || pg.Code == "40P01": // lock_not_available, deadlock_detected
		return " (sessions hold locks on the schemas of ringfence: pg_locks says which)"
	case pg.Code == "42501": // insufficient_privilege
		return " (set GUARD_POSTGRES_ADMIN to the URL of the role that owns the schemas, or of a " +
			"superuser)"
	}
	return ""
}

// uninstall is one try, in one transaction.
func uninstall(
	ctx context.Context, conn *pgx.Conn, guard string, o marks.Removing,
) (r marks.Removal, err error) {
	tx, err := conn.BeginTx(ctx, writing)
	if err != nil {
		return r, err
	}
	//nolint:errcheck // after a commit there is nothing to roll back
	defer tx.Rollback(context.WithoutCancel(ctx))
	if _, err := tx.Exec(ctx, pgschema.Settings); err != nil {
		return r, err
	}
	found, err := ours(ctx, tx)
	if err != nil || len(found) == 0 {
		return r, err
	}
	if r, err = removal(ctx, tx, found, guard, o); err != nil || len(r.Blocked) > 0 || !o.Drop {
		return r, err
	}
	// Nobody was seen who relies on it, so nobody waits long for these locks.
	if err := lockAll(ctx, tx, found); err != nil {
		return r, err
	}
	if r, err = removal(ctx, tx, found, guard, o); err != nil || len(r.Blocked) > 0 {
		return r, err
	}
	if _, err := tx.Exec(ctx, "drop schema "+strings.Join(found, ", ")+" cascade"); err != nil {
		return r, err
	}
	return r, tx.Commit(ctx)
}

// ours returns those of the schemas that are there.
func ours(ctx context.Context, tx pgx.Tx) ([]string, error) {
	return rows(ctx, tx, `select nspname::text from pg_namespace
	    where nspname in ('ringfence', 'ringfence_installed', 'ringfence_private') order by nspname`)
}

// lockAll keeps everybody else from installing, and from every table of these schemas.
func lockAll(ctx context.Context, tx pgx.Tx, schemas []string) error {
	if _, err := tx.Exec(ctx, `select pg_advisory_xact_lock($1)`, int64(pgschema.Lock)); err != nil {
		return err
	}
	tables, err := rows(ctx, tx, `select format('%I.%I', n.nspname, c.relname) from pg_class c join pg_namespace n on n.oid = c.relnamespace
	    where n.nspname = any ($1) and c.relkind = 'r' order by c.oid`, schemas)
	if err != nil || len(tables) == 0 {
		return err
	}
	_, err = tx.Exec(ctx, "lock table "+strings.Join(tables, ", ")+" in access exclusive mode")
	return err
}

func rows(ctx context.Context, tx pgx.Tx, sql string, args ...any) ([]string, error) {
	found, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(found, pgx.RowTo[string])
}

// removal says what there is in these schemas, and what relies on it.
func removal(
	ctx context.Context, tx pgx.Tx, schemas []string, guard string, o marks.Removing,
) (r marks.Removal, err error) {
	r.Drops, err = rows(ctx, tx, `select 'schema ' || u.name from unnest($1::text[]) u(name)`, schemas)
	if err != nil {
		return r, err
	}
	there := slices.Contains(schemas, "ringfence_private")
	if there {
		if err := checkVersion(ctx, tx); err != nil {
			return r, err
		}
	}
	for _, q := range removalQueries {
		if !there {
			break
		}
		found, err := rows(ctx, tx, q.sql)
		if err != nil {
			return r, err
		}
		list := q.list(&r)
		*list = append(*list, found...)
	}
	connected, err := rows(ctx, tx, connectedGuards, guard)
	if err != nil {
		return r, err
	}
	r.Blocked = append(r.Blocked, connected...)
	users, err := rows(ctx, tx, dependents, schemas)
	if err != nil {
		return r, err
	}
	r.Blocked = append(r.Blocked, users...)
	if err := strangers(ctx, tx, schemas, &r); err != nil {
		return r, err
	}
	granted, err := rows(ctx, tx, grantedRoles, guard)
	r.Stays = append(r.Stays, granted...)
	r.Settle(o)
	return r, err
}

// checkVersion fails unless the tables are those that the queries below know.
func checkVersion(ctx context.Context, tx pgx.Tx) error {
	version := 0
	err := tx.QueryRow(ctx,
		`select coalesce(max(version), 0) from ringfence_private.installation`).Scan(&version)
	switch {
	case err != nil:
		return err
	case version > pgschema.Version:
		return fmt.Errorf("the database has schema version %d, this program knows %d: use the newer "+
			"program", version, pgschema.Version)
	}
	return nil
}

//go:embed sql/uninstall_sessions.sql
var openSessions string

// removalQueries ask what there is.
var removalQueries = []struct {
	list func(*marks.Removal) *[]string
	sql  string
}{
	{drops,
		`select format('marks: %s, rules of who may claim what: %s', (select count(*) from ringfence_private.mark), (select count(*) from ringfence_private.allowed))`},
	{data,
		`select format('%s checkpoints of tasks (ringfence_private.checkpoint)', count(*)) from ringfence_private.checkpoint having count(*) > 0`},
	{blocked, openSessions},
	{blocked, `select 'direct sessions are on: guard direct --off lets every role in as before' from pg_event_trigger
	     where evtname = 'ringfence_login'`},
	{blocked, `select format('sealed: %I.%I: guard unprotect takes the seal off', n.nspname, c.relname)
	    from pg_trigger t join pg_class c on c.oid = t.tgrelid join pg_namespace n on n.oid = c.relnamespace
	   where t.tgfoid = to_regproc('ringfence.seal') order by n.nspname, c.relname`},
	{drops,
		`select format('elections of %s resources: their issuer ends, and later elections have another one', count(*)) from ringfence_private.election`},
	{data,
		`select format('%s documents: jobs, their results, and checkpoints (ringfence_private.document)', count(*)) from ringfence_private.document having count(*) > 0`},
	{blocked, `select format('an election is running: %s stands for "%s": stop it, or wait until %s, when its lease ends',
	           c.holder, c.resource, to_char(s.expires_at at time zone 'utc', 'YYYY-MM-DD HH24:MI:SS"Z"'))
	    from ringfence_private.candidate c join ringfence_private.lease s on s.id = c.lease
	   where s.expires_at > clock_timestamp() and s.id not like 'take %' order by c.resource, c.token limit 5`},
	// A take has no end that anybody could wait for. Its holder cannot enter any more.
	{stays, `select format('"%s" has taken "%s" for good, and may still run: its transactions fail from now on', t.holder, t.resource)
	    from ringfence_private.election t where t.holder is not null order by t.resource limit 5`},
}

func drops(r *marks.Removal) *[]string   { return &r.Drops }
func data(r *marks.Removal) *[]string    { return &r.Data }
func blocked(r *marks.Removal) *[]string { return &r.Blocked }
func stays(r *marks.Removal) *[]string   { return &r.Stays }

// connectedGuards finds control connections of guards, by the name that parseURL gives them.
const connectedGuards = `select format('a guard is connected from %s: stop it', coalesce(host(a.client_addr), 'this host'))
    from pg_stat_activity a
   where a.datname = current_database() and a.usename = $1 and a.application_name in ('ringfence', 'ringfence listen')
     and a.pid <> pg_backend_pid() group by a.client_addr order by 1`

// grantedRoles says what an installation has granted outside of the database. Other databases need
// it, too.
const grantedRoles = `select format('role %I, with what is granted to it: %s', o.rolname,
       coalesce(string_agg(g.rolname, ', ' order by g.rolname), 'nothing'))
  from pg_roles o left join pg_auth_members m on m.member = o.oid left join pg_roles g on g.oid = m.roleid
 where o.rolname = $1 group by o.rolname`

// dependents finds what outside of the schemas $1 depends on something in them: a view, a policy, a
// default, a foreign key. CASCADE would drop it. What belongs to an object in the schemas, such as
// its index, is not outside. Seals are told apart.
const dependents = `with recursive ours(classid, objid) as (
    select 'pg_namespace'::regclass::oid, n.oid from pg_namespace n where n.nspname = any ($1)
    union select 'pg_class'::regclass::oid, c.oid from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = any ($1)
    union select 'pg_proc'::regclass::oid, p.oid from pg_proc p join pg_namespace n on n.oid = p.pronamespace where n.nspname = any ($1)
    union select 'pg_type'::regclass::oid, t.oid from pg_type t join pg_namespace n on n.oid = t.typnamespace where n.nspname = any ($1)
), belongs(classid, objid) as (
    select * from ours
    union select d.classid, d.objid from pg_depend d join belongs b on (d.refclassid, d.refobjid) = (b.classid, b.objid) where d.deptype in ('a', 'i')
)
select distinct format('%s depends on it: drop that first', pg_describe_object(d.classid, d.objid, 0))
  from pg_depend d join ours o on (d.refclassid, d.refobjid) = (o.classid, o.objid)
 where d.deptype = 'n' and not exists (select from belongs b where (b.classid, b.objid) = (d.classid, d.objid))
   and not exists (select from pg_trigger t where d.classid = 'pg_trigger'::regclass and t.oid = d.objid and t.tgfoid = to_regproc('ringfence.seal'))
 order by 1`

// created matches the tables, views and sequences that an installation creates.
var created = regexp.MustCompile(
	`(?i)\bcreate (?:or replace )?(?:unlogged )?(?:table|view|sequence) (?:if not exists )?(ringfence[a-z_]*\.[a-z_]+)`,
)

// strangers names what the schemas have and no installation makes: it may be somebody's, with data.
func strangers(ctx context.Context, tx pgx.Tx, schemas []string, r *marks.Removal) error {
	// created elsewhere: views.sql
	known := []string{"ringfence.terms", "ringfence.sessions", "ringfence.transactions"}
	for _, m := range created.FindAllStringSubmatch(pgschema.Roles{}.SQL(), -1) {
		known = append(known, m[1])
	}
	theirs, err := rows(ctx, tx, `select format('%I.%I is nothing of ringfence: move or drop it first', n.nspname, c.relname)
	      from pg_class c join pg_namespace n on n.oid = c.relnamespace
	     where n.nspname = any ($1) and c.relkind in ('r', 'p', 'v', 'm', 'f', 'S') and not n.nspname || '.' || c.relname = any ($2) order by 1`, schemas, known)
	r.Blocked = append(r.Blocked, theirs...)
	return err
}
