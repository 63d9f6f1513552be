package seal

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// serverKinds are the findings about the settings of the server, and what runs there.
var serverKinds = []kind{
	extensionKind,
	{
		id: "identity-hidden",
		why: "a number of our own stands for them, which cannot tell a crash from a failover: after " +
			"either, a guard without a coordinator raises no mark before guard adopt",
		sql: `
select 'ringfence.server', 'the server hides its system identifier or its timeline from the role that has installed',
       'run guards with GUARD_COORDINATOR, and accept this; or guard install by a role that may call pg_control_system and pg_current_wal_insert_lsn'
  from pg_proc p where p.oid = 'ringfence.server()'::regprocedure and p.prosrc like '%ringfence_private.identity%'`,
	},
	{
		id:  "prepared-allowed",
		why: "a prepared transaction outlives its session, and anybody with its role commits it later",
		sql: `
select 'max_prepared_transactions', 'it is ' || current_setting('max_prepared_transactions'),
       'set it to 0 in postgresql.conf and restart the server'
 where current_setting('max_prepared_transactions')::integer > 0`,
	},
	{
		id:  "prepared-open",
		why: "it may be of a deposed leader, and can still be committed",
		sql: `
select x.gid, format('prepared by %I at %s', x.owner, to_char(x.prepared at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI"Z"')),
       format('COMMIT PREPARED %1$L or ROLLBACK PREPARED %1$L', x.gid)
  from pg_prepared_xacts x where x.database = current_database()`,
	},
	{
		id:  "subscription",
		why: "logical replication applies the changes of rows without statement triggers",
		sql: `
select quote_ident(s.subname), case when s.subenabled then 'it applies' else 'it can apply' end || ' changes of another server',
       format('DROP SUBSCRIPTION %I, or publish none of the sealed tables to it', s.subname)
  from pg_subscription s join pg_database d on d.oid = s.subdbid where d.datname = current_database()`,
	},
}

// extensionKind is about extensions that write in another session than the one that asks for it.
var extensionKind = kind{
	id: "extension",
	why: "it writes in other sessions than the one that asks for it: these have no token, only " +
		"seals stop them, and they may go on after the session that asked has been ended",
	sql: `
select quote_ident(e.extname), k.what, format('DROP EXTENSION %I; or seal what it can reach, and accept it', e.extname)
  from pg_extension e join (values
       ('dblink', 'it opens connections to servers, also to this one'),
       ('postgres_fdw', 'its foreign tables are in sessions at servers, which may be this one'),
       ('pg_background', 'it runs statements in backends of its own'),
       ('pg_cron', 'it runs statements at times, in backends of its own'),
       ('pg_task', 'it runs statements at times, in backends of its own'),
       ('pgagent', 'it runs statements at times, in sessions of its own'),
       ('pglogical', 'it applies changes of other servers'),
       ('bdr', 'it applies changes of other servers')) k (name, what) on k.name = e.extname
union all
select quote_ident(l.lanname), 'a language whose functions may open connections and write files', format('DROP LANGUAGE %I; or look at each function, and accept it', l.lanname)
  from pg_language l where not l.lanpltrusted and l.lanname not in ('internal', 'c')`,
}

// network is the kind of findings about pg_hba.conf. It is no entry of serverKinds because not
// every role may read it.
var (
	network = kind{
		id:  "network",
		why: "a client that reaches the server directly is fenced only by seals",
		sql: `
select h.object, format('pg_hba.conf lets roles %s in from there, line %s', string_agg(distinct array_to_string(h.user_name, ','), ' and '),
                        string_agg(h.line_number::text, ', ' order by h.line_number)),
       'let in only the addresses of guards and operators, and accept those'
  from (select *, case when type = 'local' then 'local' else coalesce(address || coalesce('/' || netmask, ''), 'all') end as object
          from pg_hba_file_rules) h
 where h.error is null and h.auth_method <> 'reject'
   and exists (select from unnest(h.database) d (name)
                where d.name in ('all', 'sameuser', 'samerole', 'samegroup', current_database())
                   or d.name like '/%' and current_database() ~ substr(d.name, 2)) -- from Postgres 16 on
 group by h.object`,
	}
	networkHidden = Finding{
		ID: "network-hidden", Object: "pg_hba.conf",
		What: "the role of this check may not read it, so it was not checked who reaches the server " +
			"directly",
		Why: network.why,
		Do: "run guard check with a superuser in GUARD_POSTGRES_ADMIN, or make sure of it yourself " +
			"and accept this",
	}
)

const mayReadHBA = `select has_function_privilege('pg_hba_file_rules()', 'execute')
    and has_table_privilege('pg_hba_file_rules', 'select')`

// findNetwork reads pg_hba.conf, if the role may.
func findNetwork(
	ctx context.Context, tx pgx.Tx, schemas []string, guard string,
) ([]Finding, error) {
	var may bool
	if err := tx.QueryRow(ctx, mayReadHBA).Scan(&may); err != nil {
		return nil, err
	}
	if !may {
		return []Finding{networkHidden}, nil
	}
	return network.find(ctx, tx, schemas, guard)
}

// Pooler returns a finding if the connection does not lead straight to a backend: the login named
// another one than the server.
func Pooler(ctx context.Context, c *pgx.Conn) ([]Finding, error) {
	var pid uint32
	if err := c.QueryRow(ctx, `select pg_catalog.pg_backend_pid()`).Scan(&pid); err != nil {
		return nil, err
	}
	if pid == c.PgConn().PID() {
		return nil, nil
	}
	return []Finding{{
		ID: "pooler", Object: c.Config().Host,
		What: fmt.Sprintf("there is a pooler on the way: the login named backend %d, the server says %d",
			c.PgConn().PID(), pid),
		Why: "a pooler gives one session to several clients, so a record says nothing about who uses it",
		Do:  "let the URL lead straight to the server; a pooler goes between application and guard",
	}}, nil
}
