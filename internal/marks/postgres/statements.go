package postgres

// The statements of an admission. Each argument of a function has a type: otherwise somebody who may
// create functions in the schema could make one that fits better, and the guard would call it.
const (
	identifySQL = `select a.backend_start, o.rolsuper, ringfence.begin_run()
	  from pg_stat_get_activity($1) a join pg_roles o on o.oid = a.usesysid
	 where a.pid = $1 and a.query = $2
	   and a.datid = (select d.oid from pg_database d where d.datname = current_database())`

	// markColumns are those that scanMark scans.
	markColumns = `token, issuer, holder, coalesce(raised_at, 'epoch'),
	       confirmed, continued, adoption, candidate, rolled_back`

	registerSQL = `select step, basis, older, resource, ` + markColumns + `
	  from ringfence.register($1::integer, $2::timestamptz, $3::text, $4::text[], $5::bigint[], $6::text[], $7::text)`

	raiseSQL = `select step, ` + markColumns + ` from ringfence.raise($1::text, $2::bigint, $3::text, $4::text, $5::text, $6::text)`

	revokeSQL = `select current, gone, remaining, blocked, prepared, described
	  from ringfence.revoke($1::text, $2::bigint, $3::text, $4::integer, $5::integer)`

	beginRunSQL = `select ringfence.begin_run()`

	tellSQL = `select pg_notify('ringfence', $1)`

	leaveSQL = `select ringfence.leave()`

	releaseSQL = `select ringfence.release($1::integer[], $2::timestamptz[], $3::text[], $4::boolean[])`
)
