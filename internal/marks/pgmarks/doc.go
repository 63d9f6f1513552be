// Package pgmarks is marks.Store for Postgres. It keeps marks and sessions in the schema
// ringfence_private of the database that it protects, and calls the functions of the schema
// ringfence. Both are in internal/postgres/pgschema/sql.
//
// An operator installs the schema once; guards and tools then open a store:
//
//	err := pgmarks.Install(ctx, adminURL, "guard_role", "leader_role")
//
//	store, err := pgmarks.Open("postgres://guard_role@database/shop", pgmarks.Options{})
//	if err != nil {
//		return err
//	}
//	defer store.Close()
//	admission := &marks.Admission{Store: store, Authority: authority}
//
// A program that leads without a guard raises the mark itself (Raiser), and puts its transactions
// (Begin, Enter) or its connections (Attach) under a claim.
//
// # What it guarantees, and what not
//
// When Revoke succeeds, no older session is left in pg_stat_activity or pg_locks, so nothing of one
// can still commit. Nothing else proves that: after a client's connection is closed, a running
// statement still commits.
//
// What outlives a backend is out of reach:
//
//   - prepared transactions, so a store does not serve where the server allows them
//     (Options.AllowPrepared changes that)
//   - work that a session gave to other servers or to background workers (dblink, foreign tables,
//     pg_cron)
//   - a transaction that has committed locally and waits for a synchronous standby
//
// So is what runs before admission: a login event trigger (Postgres 17).
//
// # Why a newer session never meets an older one
//
// A session is a backend, identified by pid and backend_start. Register locks the mark's row and
// Raise updates it, so a raise waits for a registration that has already checked the mark, and then
// finds it in the list of sessions. Revoke ends the listed backends with pg_terminate_backend and
// queries pg_stat_activity until they are gone. Release also removes backends from the list that
// are still alive, if they are idle, and their guard passes on nothing more of their clients.
//
// # Restarts, failovers, restores
//
// A mark and the table of sessions count only on the run of the server on which they were written,
// and only as they were written (ARCHITECTURE.md, invariants 6 and 13). In a copy of the database,
// or after a dump was restored, nobody is admitted before Install. That records every session of
// the database that it could end, under the resource *, and Revoke ends those with the others.
//
// One case remains: a restored snapshot of the whole machine, memory included, looks like the
// server that never stopped. With a coordinator a guard admits nobody deposed even then. A deposed
// leader's transactions under a token alone (Begin, Enter) would succeed.
package pgmarks
