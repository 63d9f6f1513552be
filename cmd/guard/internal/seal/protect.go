package seal

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Protect plans to seal tables, with all their partitions and children. A table that is sealed for
// another resource changes to this one. The role that runs the plan owns the tables and the schema
// ringfence, or is a superuser.
//
// It is an error if a table does not exist, or is a partition or child whose parent is neither
// sealed for this resource nor in the request: a write to the parent would reach it without its
// seal.
func Protect(ctx context.Context, c *pgx.Conn, r Request) (*Plan, error) {
	return planned(ctx, c, "there is no table to seal", func(tx pgx.Tx, p *Plan) error {
		if err := problems(ctx, tx, namesSQL, r.Tables, r.Schemas); err != nil {
			return err
		}
		all, err := family(ctx, tx, r)
		if err != nil {
			return err
		}
		var oids []uint32
		for _, t := range all {
			oids = append(oids, t.OID)
		}
		if err := problems(ctx, tx, parentsSQL, oids, string(r.Resource)); err != nil {
			return err
		}
		for _, t := range all {
			if !t.Lost {
				p.seal(t, string(r.Resource))
			}
		}
		return nil
	})
}

// seal replaces the trigger, which CREATE OR REPLACE can do only since Postgres 14.
func (p *Plan) seal(t table, resource string) {
	p.Tables = append(p.Tables, t.String())
	p.add("drop trigger if exists ringfence_seal on %s", t)
	p.add("create trigger ringfence_seal before insert or update or delete or truncate on %s\n"+
		"    for each statement execute function ringfence.seal(%s)", t, literal(resource))
	p.add("alter table %s enable always trigger ringfence_seal", t)
	p.add(
		"insert into ringfence_private.sealed (schema_name, table_name, resource) values (%s, %s, %s)\n"+
			"    on conflict (schema_name, table_name) do update set resource = excluded.resource,\n"+
			"    sealed_at = excluded.sealed_at, sealed_by = excluded.sealed_by",
		literal(t.Schema), literal(t.Name), literal(resource))
}

// namesSQL finds which of the names $1 and the schemas $2 are of nothing that can be sealed. A
// temporary table is its session's own.
const namesSQL = `with ` + named + `
select 'there is no table ' || w.name from named w
 where cardinality(w.path) <> 2 or not ` + isTable + `
union all
select 'the tables of the schema ' || w.path[1] || ' cannot be sealed' from named w
 where w.path[1] ~ '^pg_' or w.path[1] in ('ringfence', 'ringfence_private', 'information_schema')
union all
select 'there is no schema ' || u.name from unnest($2::text[]) u(name)
 where u.name ~ '^pg_' or u.name in ('ringfence', 'ringfence_private', 'information_schema') or to_regnamespace(quote_ident(u.name)) is null`

// recordsSQL finds which of the names $1 and the schemas $2 are neither of tables nor recorded as
// sealed.
const recordsSQL = `with ` + named + `
select 'there is no table ' || w.name || ', and none was sealed' from named w
 where cardinality(w.path) <> 2 or not ` + isTable + `
   and not exists (select from ringfence.sealed_tables() r where r.schema_name = w.path[1] and r.table_name = w.path[2])
union all
select 'there is no schema ' || u.name || ', and none had sealed tables' from unnest($2::text[]) u(name)
 where to_regnamespace(quote_ident(u.name)) is null and not exists (select from ringfence.sealed_tables() r where r.schema_name = u.name)`

// parentsSQL finds the parents of the tables $1 that are neither among them nor sealed for the
// resource $2.
const parentsSQL = seals + `
select format('%s is a partition or child of %s, which is not sealed for %s: a write to the parent would '
       'reach it without its seal; protect %2$s, which seals both', i.inhrelid::regclass, i.inhparent::regclass, $2::text)
  from pg_inherits i
 where i.inhrelid = any ($1) and not i.inhparent = any ($1)
   and not exists (select from seals s where s.oid = i.inhparent and s.resource = $2)`

// problems returns the rows of a query as an error.
func problems(ctx context.Context, tx pgx.Tx, sql string, args ...any) error {
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(all) == 0 {
		return err
	}
	return errors.New(strings.Join(all, "; "))
}

// Unprotect plans to take the seals off tables, with all their partitions and children. A name may
// also be of a table that is recorded as sealed and no longer exists. It is an error if one is of
// neither.
func Unprotect(ctx context.Context, c *pgx.Conn, r Request) (*Plan, error) {
	return planned(ctx, c, "there is no such table", func(tx pgx.Tx, p *Plan) error {
		if err := problems(ctx, tx, recordsSQL, r.Tables, r.Schemas); err != nil {
			return err
		}
		all, err := family(ctx, tx, r)
		for _, t := range all {
			p.unseal(t)
		}
		return err
	})
}

func (p *Plan) unseal(t table) {
	p.Tables = append(p.Tables, t.String())
	if t.Resource == "" && !t.Lost {
		p.Bare = append(p.Bare, t.String())
	}
	if !t.Lost {
		p.add("drop trigger if exists ringfence_seal on %s", t)
	}
	p.add("delete from ringfence_private.sealed where (schema_name, table_name) = (%s, %s)",
		literal(t.Schema), literal(t.Name))
}
