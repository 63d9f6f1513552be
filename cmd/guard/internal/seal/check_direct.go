package seal

// directKinds are the findings about direct sessions (ringfence.direct), where the database has the
// trigger for them.
var directKinds = []kind{
	{
		id:  "direct-trial",
		why: "a trial only logs which logins it would refuse: a deposed leader writes as before",
		sql: `
select 'ringfence_login', 'direct sessions are tried for ' || array_to_string(d.roles, ', '), 'guard direct ' || array_to_string(d.roles, ' ')
  from ringfence.direct_sessions() d where d.trial`,
	},
	{
		id: "direct-changed",
		why: "the trigger was disabled, or came with a dump from another server, where its roles had " +
			"other numbers: it refuses nobody",
		sql: `
select quote_ident(e.evtname), 'the event trigger for direct sessions is not in force', 'guard direct with its roles again, or guard direct --off'
  from pg_event_trigger e, ringfence.direct_sessions() d
 where e.evtname = 'ringfence_login' and not d.trial and (not d.in_force or d.roles = '{}')`,
	},
	{
		id:  "direct-lost",
		why: "a role that was renamed logs in as if it had never been named",
		sql: `
select role, 'the trigger for direct sessions names it, and there is no role of this name and number',
       'guard direct with all roles that it is for'
  from ringfence.direct_sessions() d, unnest(d.lost) role where d.roles <> '{}'`,
	},
	{
		id:  "direct-uncovered",
		why: "it logs in without a token, and writes what direct sessions write",
		sql: loginRoles + `
select quote_ident(r.rolname), 'it may write ' || string_agg(distinct format('%I.%I', n.nspname, c.relname), ', '),
       'guard direct ' || array_to_string(d.roles, ' ') || ' ' || quote_ident(r.rolname) || '; or take its privileges away'
  from ringfence.direct_sessions() d
  join login_role r on r.rolname <> all (d.roles) and r.rolname <> $2
  join pg_class c on c.relkind in ('r', 'p') and (has_table_privilege(r.becomes, c.oid, 'insert, update, delete, truncate'))
  join pg_namespace n on n.oid = c.relnamespace and n.nspname = any ($1)
 where d.in_force
 group by r.rolname, d.roles`,
	},
}
