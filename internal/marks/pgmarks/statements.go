package pgmarks

// The statements of an admission. Each argument of a function has a type: otherwise somebody who
// may create functions in the schema could make one that fits better, and the guard would call it.
const (
	identifySQL = `select a.backend_start, o.rolsuper, ringfence.run()
	  from pg_stat_get_activity($1) a join pg_roles o on o.oid = a.usesysid
	 where a.pid = $1 and a.query = $2
	   and a.datid = (select d.oid from pg_database d where d.datname = current_database())
	   and pg_get_userbyid(a.usesysid) is not null` // see rolesSQL

	// markColumns are those that scanMark scans.
	markColumns = `token, issuer, holder, coalesce(raised_at, 'epoch'),
	       confirmed, continued, adoption, candidate, rolled_back`

	registerSQL = `select step, basis, older, resource, ` + markColumns + `
	  from ringfence.register($1::integer, $2::timestamptz, $3::text, $4::text[], $5::bigint[], $6::text[], $7::text)`

	raiseSQL = `select step, ` + markColumns +
		` from ringfence.raise($1::text, $2::bigint, $3::text, $4::text, $5::text, $6::text)`

	revokeSQL = `select current, gone, remaining, blocked, prepared, described
	  from ringfence.revoke($1::text, $2::bigint, $3::text, $4::integer)`

	// raiseOwnSQL and revokeOwnSQL are the two for a program. The owner of the functions ends backends
	// there; the program ends those that only it may end.
	raiseOwnSQL = `select step, mark_token, mark_issuer, mark_holder, coalesce(raised_at, 'epoch'),
	       confirmed, continued, adoption, mark_candidate, rolled_back
	  from ringfence.raise_own($1::text, $2::bigint, $3::text, $4::text, $5::text, $6::text)`

	revokeOwnSQL = `select current, gone, remaining,
	       case when blocked = '{}' then blocked else ringfence.signal(remaining::integer[]) end, prepared, described
	  from ringfence.revoke_own($1::text, $2::bigint, $3::text, $4::integer)`

	olderSQL = `select count(pg_terminate_backend(a.pid))
	  from ringfence.older($1::text, $2::bigint, $3::text) o
	  join pg_stat_get_activity(null) a on a.pid = o.pid and a.backend_start = o.backend_start`

	// roomSQL counts backends once their login is over.
	roomSQL = `with b as materialized (
	    select a.datid, a.usesysid from pg_stat_get_activity(null) a
	     where a.backend_type = 'client backend' and a.state is distinct from 'starting'
	), l as (
	    select current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
	           - coalesce(current_setting('reserved_connections', true)::int, 0) as most
	)
	select l.most, l.most - (select count(*) from b),
	       coalesce((select d.datconnlimit - (select count(*) from b where b.datid = d.oid)
	                   from pg_database d where d.datname = $1::text and d.datconnlimit >= 0), l.most),
	       coalesce((select o.rolconnlimit - (select count(*) from b where b.usesysid = o.oid)
	                   from pg_roles o where o.rolname = $2::text and o.rolconnlimit >= 0), l.most)
	  from l`

	// rolesSQL looks up the roles of all sessions, so that the connection remembers them: to end a
	// backend it needs its role, and where it does not remember that, a lock, of which there may be
	// none left.
	rolesSQL = `select count(pg_get_userbyid(o.usesysid))
	  from (select distinct a.usesysid from ringfence.sessions() s
	          join pg_stat_get_activity(null) a on a.pid = s.pid and a.backend_start = s.backend_start) o`

	runSQL = `select ringfence.run()`

	tellSQL = `select pg_notify('ringfence', $1)`

	endLeavingSQL = `select ringfence.end_leaving()`

	// letGoSQL is part of what releaseSQL does.
	letGoSQL = `select ringfence.let_go($1::integer[], $2::timestamptz[])`

	releaseSQL = `select ringfence.release($1::integer[], $2::timestamptz[], $3::text[], $4::boolean[])`
)
