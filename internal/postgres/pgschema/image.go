package pgschema

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Image returns a text that changes if an installation changes anything in the schemas of
// Ringfence: columns, indexes, functions, triggers, comments and privileges. It does not change
// with the rows.
func Image(ctx context.Context, conn *pgx.Conn) (text string, err error) {
	err = conn.QueryRow(ctx, image).Scan(&text)
	return text, err
}

const image = `with n as (
    select oid, nspname, nspowner, nspacl from pg_catalog.pg_namespace
     where nspname in ('ringfence', 'ringfence_installed', 'ringfence_private')
), c as (
    select c.* from pg_catalog.pg_class c join n on n.oid = c.relnamespace
), part(what) as (
    select pg_catalog.concat_ws(' ', nspname, nspowner, (select pg_catalog.string_agg(x::text, ' ' order by x::text collate "C") from pg_catalog.unnest(nspacl) x), pg_catalog.obj_description(oid, 'pg_namespace')) from n
    union all
    select pg_catalog.concat_ws(' ', relname, relkind, relpersistence, relowner, (select pg_catalog.string_agg(x::text, ' ' order by x::text collate "C") from pg_catalog.unnest(relacl) x), reloptions, pg_catalog.obj_description(oid, 'pg_class'),
        case when relkind in ('i', 'I') then pg_catalog.pg_get_indexdef(oid) end) from c
    union all
    select pg_catalog.concat_ws(' ', a.attrelid, a.attnum, a.attname, a.atttypid, a.atttypmod, a.attcollation, a.attnotnull, (select pg_catalog.string_agg(x::text, ' ' order by x::text collate "C") from pg_catalog.unnest(a.attacl) x),
        pg_catalog.pg_get_expr(d.adbin, d.adrelid))
      from pg_catalog.pg_attribute a join c on c.oid = a.attrelid
      left join pg_catalog.pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
     where a.attnum > 0 and not a.attisdropped
    union all
    select pg_catalog.concat_ws(' ', k.conname, k.conrelid, pg_catalog.pg_get_constraintdef(k.oid)) from pg_catalog.pg_constraint k join n on n.oid = k.connamespace
    union all
    select pg_catalog.concat_ws(' ', t.tgname, t.tgenabled, pg_catalog.pg_get_triggerdef(t.oid))
      from pg_catalog.pg_trigger t join c on c.oid = t.tgrelid where not t.tgisinternal
    union all
    select pg_catalog.concat_ws(' ', f.proowner, (select pg_catalog.string_agg(x::text, ' ' order by x::text collate "C") from pg_catalog.unnest(f.proacl) x), case when f.prokind <> 'a' then pg_catalog.pg_get_functiondef(f.oid) end)
      from pg_catalog.pg_proc f join n on n.oid = f.pronamespace
    union all
    select pg_catalog.concat_ws(' ', m.roleid, m.member) from pg_catalog.pg_auth_members m
     where m.roleid in (select oid from pg_catalog.pg_roles where rolname in ('pg_read_all_stats', 'pg_monitor', 'pg_signal_backend'))
)
select coalesce(pg_catalog.md5(pg_catalog.string_agg(what, E'\n' order by what collate "C")), '') from part`
