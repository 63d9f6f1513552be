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
// # Failover
//
// A mark remembers the server it was raised on: system identifier and timeline. On another one it counts as
// unconfirmed, for an asynchronous failover may have lost a later raise; the next session raises it anew, which in the
// coordinator's mode only the current leader's token can do.
package postgres
