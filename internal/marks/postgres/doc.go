// Package postgres keeps marks and sessions in Postgres: the schema ringfence, made by Install, in the database that
// is written to. All SQL is in sql/.
//
// A session is a backend, named by pid and backend_start. Register locks the mark's row, Raise updates it: so a
// raise waits for a registration that has already checked, and then finds it in its list. Revoke ends backends
// with pg_terminate_backend and believes only pg_stat_activity that they are gone: a closed connection proves nothing,
// for a running statement still commits after its client has left.
//
// What outlives a backend is out of reach: prepared transactions (refused by default, see Options), work that the
// session handed to other servers or to background workers (dblink, foreign tables, pg_cron), and a transaction that
// has committed locally and waits for a synchronous standby. So is what runs before admission: a login event trigger
// (Postgres 17).
//
// # Restarts, failovers, restores
//
// A mark remembers the run it was raised on: system identifier, timeline, database, start of the server. On another run it
// counts as unconfirmed, and the next session raises it anew, which in the coordinator's mode only the current leader's token
// can do. It remembers the transaction that wrote its row, too: a row that a dump has brought back has another xmin, and is
// unconfirmed on the very run that it was raised on.
//
// The table of sessions is bound to the run and to its own creation in the same way. Where it may be incomplete, Revoke first
// records every session of the database that it could end, under the resource *, and ends them with the others.
//
// What remains: a snapshot of the whole machine, memory included, that is taken back looks like the server that never
// stopped. With a coordinator nobody deposed is admitted after that either; transactions under a token alone are.
package postgres
