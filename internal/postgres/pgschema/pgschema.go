// Package pgschema begins the transactions that install and change schemas of Ringfence, so that no
// default of a database, a role or a pooler changes what their statements mean.
//
//	text := pgschema.Begin + pgschema.Collate("ringfence") + "create table if not exists ..." + "commit"
package pgschema

import (
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// Settings are for the begin of a transaction of an operator. With this search_path no function or
// operator is called that somebody has made in public. An extension may have made another kind of table
// the default, which has no xmin; and a role that other commands quote for, quoted names.
const Settings = `set local search_path = pg_catalog, pg_temp;
set local client_min_messages = warning;
set local lock_timeout = '10s';
set local statement_timeout = 0;
set local synchronous_commit = on;
set local default_table_access_method = heap;
set local plpgsql.extra_errors = 'none';
set local plpgsql.extra_warnings = 'none';
set local quote_all_identifiers = off;
`

// Begin begins an installation.
const Begin = "begin isolation level read committed read write;\n" + Settings

// Collate returns statements that put all text in the tables of a schema in the order of its bytes. The
// default order of a database changes with the C library or ICU. Then an index no longer finds its rows,
// and one key gets a second row. The tables are not rewritten; the indexes are, which fails with 23505
// (unique_violation) if a key has two rows already.
func Collate(schema string) string { return strings.ReplaceAll(collate, "{{schema}}", schema) }

const collate = `do $$
declare
    c record;
begin
    for c in select format('%I.%I', n.nspname, r.relname) as place, a.attname as name
               from pg_attribute a join pg_class r on r.oid = a.attrelid join pg_namespace n on n.oid = r.relnamespace
              where n.nspname = '{{schema}}' and r.relkind = 'r' and a.attnum > 0 and not a.attisdropped
                and a.atttypid = 'text'::regtype and a.attcollation <> '"C"'::regcollation loop
        execute format('alter table %s alter column %I type text collate "C"', c.place, c.name);
    end loop;
end $$;

`

// Advice says what to do about that error, or "" about another one.
func Advice(err error) string {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || pg.Code != "23505" {
		return ""
	}
	return " (" + pg.Detail + " The index was out of order, as after an upgrade of the operating system, " +
		"so a deposed leader may have been admitted. Stop guards and leaders, delete the older of the two rows, " +
		"run REINDEX DATABASE, and install again)"
}
