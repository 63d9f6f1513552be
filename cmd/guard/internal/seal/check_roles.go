package seal

import "github.com/ringfence/ringfence/internal/postgres/pgschema"

// loginRoles begins a query: it lists the roles that can log in, and what each can become, itself
// first of all. A role without INHERIT has the rights of its groups after SET ROLE.
const loginRoles = `
with ` + loginRoleList

const loginRoleList = `login_role(oid, rolname, becomes) as (
    select r.oid, r.rolname, g.oid from pg_roles r join pg_roles g on not g.rolsuper and pg_has_role(r.oid, g.oid, 'member')
     where r.rolcanlogin and not r.rolsuper)`

// roleKinds are the findings about roles that could go round a seal. Superusers are listed once,
// and not again for each privilege that they have. A role that only REPLICATION sets apart writes
// nothing, and in Postgres itself only superusers create event triggers.
var roleKinds = []kind{
	{
		id: "superuser",
		why: "a superuser can drop seals and write marks; a guard refuses superusers, so they log in " +
			"directly",
		sql: `
select quote_ident(rolname), 'a superuser that may log in', 'let it log in only where operators work (pg_hba.conf), and accept it'
  from pg_roles where rolsuper and rolcanlogin
union all
select quote_ident(r.rolname), 'a member of ' || string_agg(quote_ident(g.rolname), ', ' order by g.rolname) || ', so SET ROLE makes it a superuser',
       format('REVOKE %s FROM %I', string_agg(quote_ident(g.rolname), ', ' order by g.rolname), r.rolname)
  from pg_roles r join pg_roles g on g.rolsuper and pg_has_role(r.oid, g.oid, 'member')
 where r.rolcanlogin and not r.rolsuper
 group by r.rolname`,
	},
	{
		id: "role-maker",
		why: "before Postgres 16 CREATEROLE makes its role a member of any role that is no superuser, " +
			"such as the owner of a sealed table",
		sql: `
select quote_ident(rolname), 'it has CREATEROLE', format('ALTER ROLE %I NOCREATEROLE', rolname)
  from pg_roles where rolcreaterole and rolcanlogin and not rolsuper and current_setting('server_version_num')::integer < 160000`,
	},
	{
		id:  "server-access",
		why: "who writes files of the server or runs programs there can become a superuser",
		sql: `
select quote_ident(r.rolname), 'a member of ' || string_agg(g.rolname, ', ' order by g.rolname),
       format('REVOKE %s FROM %I', string_agg(g.rolname, ', ' order by g.rolname), r.rolname)
  from pg_roles r join pg_roles g on g.rolname in ('pg_write_server_files', 'pg_execute_server_program')
 where r.rolcanlogin and not r.rolsuper and pg_has_role(r.oid, g.oid, 'member')
 group by r.rolname
union all (` + loginRoles + `
select quote_ident(r.rolname), 'it may call ' || string_agg(distinct p.oid::regprocedure::text, ', '),
       format('REVOKE EXECUTE ON FUNCTION %s FROM %I', string_agg(distinct p.oid::regprocedure::text, ', '), r.rolname)
  from login_role r join pg_proc p on p.pronamespace = 'pg_catalog'::regnamespace
   and p.proname in ('lo_export', 'pg_file_write', 'pg_file_rename', 'pg_file_unlink') and has_function_privilege(r.becomes, p.oid, 'execute')
 where not pg_has_role(r.oid, 'pg_execute_server_program', 'member') and not pg_has_role(r.oid, 'pg_write_server_files', 'member')
 group by r.rolname)`,
	},
	{
		id:   "server-access",
		why:  "who may set what the server loads and runs, or who may log in, can become a superuser",
		from: 150000,
		sql: loginRoles + `
select quote_ident(r.rolname), 'it may set ' || string_agg(distinct a.parname, ', '),
       format('REVOKE SET, ALTER SYSTEM ON PARAMETER %s FROM %I', string_agg(distinct a.parname, ', '), r.rolname)
  from pg_parameter_acl a join login_role r on has_parameter_privilege(r.becomes, a.parname, 'set, alter system')
 where a.parname in ('allow_system_table_mods', 'archive_cleanup_command', 'archive_command', 'archive_library', 'config_file',
                     'data_directory', 'dynamic_library_path', 'extension_control_path', 'hba_file', 'ident_file', 'jit_provider',
                     'local_preload_libraries', 'recovery_end_command', 'restore_command', 'session_preload_libraries',
                     'shared_preload_libraries', 'ssl_passphrase_command')
 group by r.rolname`,
	},
	{
		id: "table-owner",
		why: "the owner of a table can disable or drop its seal, and change it by DDL, which fires no " +
			"seal",
		sql: seals + `
select quote_ident(r.rolname),
       format('sealed tables that it owns, itself or by membership: %s, such as %s', count(*), min(c.oid::regclass::text)),
       'let a role without LOGIN, which no application is a member of, own the tables: ALTER TABLE ... OWNER TO ...'
  from seals s join pg_class c on c.oid = s.oid
  join pg_roles r on r.rolcanlogin and not r.rolsuper and pg_has_role(r.oid, c.relowner, 'member')
 group by r.rolname`,
	},
	{
		id: "trigger-maker",
		why: "a trigger runs in the session of whoever writes, so its function changes what the leader " +
			"writes, under the leader's token",
		sql: seals + `, ` + loginRoleList + `
select quote_ident(r.rolname),
       format('sealed tables on which it may create triggers: %s, such as %s', count(distinct c.oid), min(c.oid::regclass::text)),
       format('REVOKE TRIGGER ON ... FROM %I, and drop the triggers that it has created', r.rolname)
  from seals s join pg_class c on c.oid = s.oid
  join login_role r on r.becomes <> c.relowner and has_table_privilege(r.becomes, c.oid, 'trigger')
 group by r.rolname`,
	},
	{
		id: "trigger-function",
		why: "who owns the function of a trigger can replace it, and it runs in the session of whoever " +
			"writes, under the leader's token",
		sql: seals + `, ` + loginRoleList + `
select format('%I.%I.%I', n.nspname, c.relname, t.tgname),
       'its function is of roles that may log in: ' || string_agg(distinct quote_ident(r.rolname), ', '),
       format('DROP TRIGGER %I ON %I.%I; or ALTER FUNCTION %s OWNER TO a role without LOGIN', t.tgname, n.nspname, c.relname, t.tgfoid::regprocedure)
  from seals s join pg_class c on c.oid = s.oid join pg_namespace n on n.oid = c.relnamespace
  join pg_trigger t on t.tgrelid = c.oid and not t.tgisinternal join pg_proc p on p.oid = t.tgfoid
  join login_role r on r.becomes = p.proowner
 where p.oid <> 'ringfence.seal()'::regprocedure
 group by n.nspname, c.relname, t.tgname, t.tgfoid`,
	},
	{
		id: "mark-writer",
		why: "who writes the tables of the schema ringfence can make a record of his own session, or " +
			"change marks; who has functions there can have others call them in place of ours",
		sql: loginRoles + `
select distinct quote_ident(r.rolname), 'it may write, create or owns something in the schema ringfence',
       format('REVOKE its membership (such as pg_write_all_data) or its privileges: REVOKE ALL ON ALL TABLES IN SCHEMA ringfence_private FROM %1$I; '
              'REVOKE CREATE ON SCHEMA ringfence FROM %1$I; and drop what it has created there', r.rolname)
  from login_role r
 where exists (select from pg_namespace n where n.nspname in ('ringfence', 'ringfence_private')
                  and (n.nspowner = r.becomes or has_schema_privilege(r.becomes, n.oid, 'create')))
    or exists (select from pg_proc p where p.pronamespace = 'ringfence'::regnamespace and p.proowner = r.becomes)
    or exists (select from pg_class c where c.relnamespace in ('ringfence'::regnamespace, to_regnamespace('ringfence_private')) and (
           c.relowner = r.becomes
        or c.relkind = 'r' and (has_table_privilege(r.becomes, c.oid, 'insert, update, delete, truncate, trigger')
                                or has_any_column_privilege(r.becomes, c.oid, 'insert, update'))
        or c.relkind = 'S' and has_sequence_privilege(r.becomes, c.oid, 'usage, update')))`,
	},
	{
		id:  "guard-role",
		why: "the functions of a guard raise marks and record sessions, and believe who calls them",
		sql: loginRoles + `
select quote_ident(r.rolname), format('it may call functions of a guard, such as ringfence.%I, and is not the guard''s role', min(p.proname)),
       format('REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA ringfence FROM %I; then guard install', r.rolname)
  from login_role r join pg_proc p on p.pronamespace = 'ringfence'::regnamespace and has_function_privilege(r.becomes, p.oid, 'execute')
 where r.rolname <> $2::text and p.proname <> all (` + pgschema.OfEverybody + `) and p.proname <> all (` + pgschema.OfLeaders + `)
 group by r.rolname
union all
select quote_ident(r.rolname), 'the guard''s role may lead, too, so it is also the role of a program',
       format('let guard and programs log in as different roles; then REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA ringfence FROM %I, and guard install', r.rolname)
  from pg_roles r
 where r.rolname = $2::text and not r.rolsuper and exists (
        select from pg_proc p where p.pronamespace = 'ringfence'::regnamespace and p.proname = 'take_term' and p.proowner <> r.oid
           and has_function_privilege(r.oid, p.oid, 'execute'))
union all
select quote_ident(r.rolname), format('the guard''s role may write tables of programs: %s, such as %s', count(*), min(c.oid::regclass::text)),
       'let the guard log in as a role of its own, which needs no privilege on any table (GUARD_POSTGRES_UPSTREAM)'
  from pg_roles r join pg_class c on c.relkind in ('r', 'p') and has_table_privilege(r.oid, c.oid, 'insert, update, delete, truncate')
  join pg_namespace n on n.oid = c.relnamespace and n.nspname !~ '^(pg_|ringfence|information_schema$)'
 where r.rolname = $2::text and not r.rolsuper
 group by r.rolname`,
	},
	{
		id: "ddl",
		why: "no trigger fires for DDL: who may create objects creates tables, functions and views " +
			"without a token",
		sql: loginRoles + `
select 'schema ' || quote_ident(n.nspname),
       'roles that may create objects in it: ' || string_agg(distinct quote_ident(r.rolname), ', '),
       format('REVOKE CREATE ON SCHEMA %I FROM ...; new tables need guard protect', n.nspname)
  from pg_namespace n join login_role r on has_schema_privilege(r.becomes, n.oid, 'create')
 where n.nspname = any ($1)
 group by n.nspname
union all
select 'database ' || quote_ident(d.datname),
       'roles that may create schemas in it: ' || string_agg(distinct quote_ident(r.rolname), ', '),
       format('REVOKE CREATE ON DATABASE %I FROM ...', d.datname)
  from pg_database d join login_role r on has_database_privilege(r.becomes, d.oid, 'create')
 where d.datname = current_database()
 group by d.datname`,
	},
	{
		id:  "guard-blind",
		why: "a guard must see which sessions live; it serves nobody until it can",
		sql: `
select quote_ident(g.rolname), 'the guard''s role lacks pg_read_all_stats',
       format('GRANT pg_read_all_stats TO %1$I; where the service does not let you: GRANT pg_monitor TO %1$I, which contains it', g.rolname)
  from pg_roles g where g.rolname = $2::text and not pg_has_role(g.oid, 'pg_read_all_stats', 'usage')`,
	},
	{
		id:  "guard-ends-few",
		why: "a take-over fails while older sessions live that the guard cannot end",
		sql: `
select quote_ident(g.rolname), 'the guard''s role lacks pg_signal_backend, so it cannot end sessions of ' || string_agg(quote_ident(r.rolname), ', ' order by r.rolname),
       format('GRANT pg_signal_backend TO %1$I; where the service does not let you, GRANT to %1$I each of these roles that leaders log in as', g.rolname)
  from pg_roles g join pg_roles r on r.rolcanlogin and not r.rolsuper and not pg_has_role(g.oid, r.oid, 'usage')
   and has_database_privilege(r.oid, current_database(), 'connect')
 where g.rolname = $2::text and not pg_has_role(g.oid, 'pg_signal_backend', 'usage')
 group by g.rolname`,
	},
	{
		id: "seal-blind",
		why: "the owner of ringfence.seal must see when a backend has started; without that, sealed " +
			"tables refuse the sessions of guards",
		sql: `
select quote_ident(r.rolname), 'it owns the function ringfence.seal and lacks pg_read_all_stats',
       format('GRANT pg_read_all_stats TO %1$I; where the service does not let you: GRANT pg_monitor TO %1$I, which contains it', r.rolname)
  from pg_proc p join pg_roles r on r.oid = p.proowner
 where p.oid = 'ringfence.seal()'::regprocedure and not pg_has_role(r.oid, 'pg_read_all_stats', 'usage')`,
	},
}
