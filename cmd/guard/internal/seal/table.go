package seal

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// table is a table that a request names, or a partition or child of one.
type table struct {
	OID      uint32
	Schema   string
	Name     string
	Resource string // of its seal; empty without one
	Lost     bool   // recorded as sealed, and not there
}

func (t table) String() string { return pgx.Identifier{t.Schema, t.Name}.Sanitize() }

// seals begins a query that uses the list of all seals. resource is empty where the trigger has not
// exactly one argument. It is escaped and not decoded, since somebody may have put any bytes there.
// whole: nobody has changed the trigger. 62 means: before each statement, on INSERT, UPDATE, DELETE
// and TRUNCATE (pg_trigger.tgtype); tgattr has the columns of UPDATE OF.
const seals = `with recursive seals as (
    select t.tgrelid as oid, t.tgname as name,
           case when t.tgnargs = 1 then encode(substr(t.tgargs, 1, length(t.tgargs) - 1), 'escape') else '' end as resource,
           t.tgenabled = 'A' and t.tgtype = 62 and t.tgqual is null and t.tgattr::text = '' and t.tgnargs = 1 as whole
      from pg_trigger t
     where t.tgfoid = 'ringfence.seal()'::regprocedure and t.tgname = 'ringfence_seal')`

// named lists the names $1. A name without a schema is in public.
const named = `named as (
    select u.name, parse_ident(case when cardinality(parse_ident(u.name)) = 1 then 'public.' || u.name else u.name end) as path
      from unnest($1::text[]) u(name)
)`

// sealable: the row c of pg_class is a table that can have a seal. A foreign table cannot, and a
// temporary one may be another session's.
const sealable = `c.relkind in ('r', 'p') and c.relpersistence <> 't'`

// isTable: the row w of named is a table that can have a seal.
const isTable = `exists (
    select from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where n.nspname = w.path[1] and c.relname = w.path[2] and ` + sealable + `)`

// familySQL finds the tables with the names $1 and those in the schemas $2, with all partitions and
// children. It leaves out what is not sealable. A name without a table finds what is recorded under
// it.
const familySQL = seals + `, ` + named + `, family(oid) as (
    select to_regclass(format('%I.%I', path[1], path[2]))::oid from named
    union select c.oid from pg_class c join pg_namespace n on n.oid = c.relnamespace
           where n.nspname = any ($2) and ` + sealable + `
    union select i.inhrelid from family f join pg_inherits i on i.inhparent = f.oid)
select c.oid, n.nspname as schema, c.relname as name, coalesce(s.resource, '') as resource, false as lost
  from family f join pg_class c on c.oid = f.oid join pg_namespace n on n.oid = c.relnamespace
  left join seals s on s.oid = c.oid
 where ` + sealable + `
union all
select 0, r.schema_name, r.table_name, r.resource, true
  from ringfence.sealed_tables() r
 where not exists (
    select from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where n.nspname = r.schema_name and c.relname = r.table_name and ` + sealable + `)
   and (r.schema_name = any ($2) or array[r.schema_name, r.table_name]::text[] in (select path from named))
 order by 2, 3`

// family returns the tables of a request, with all their partitions and children.
func family(ctx context.Context, tx pgx.Tx, r Request) ([]table, error) {
	rows, err := tx.Query(ctx, familySQL, r.Tables, r.Schemas)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByName[table])
}
