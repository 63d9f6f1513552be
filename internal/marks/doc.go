// Package marks decides who may write. It keeps one mark for each resource and the sessions under
// it in the database that the sessions write to. The database is the only authority: the memory of
// a guard may refuse early, but never admits.
//
//	a := &marks.Admission{Store: store, Authority: marks.Elected{Observer: coordinator}}
//	err := a.Admit(ctx, session, []marks.Presented{{Resource: "orders", Token: 45}})
//	if err != nil {
//		// *fence.Refusal: the client may not write
//	}
//	// the client may write until a newer token is admitted, which ends its session
//
// # Admission
//
//	           ┌───────────────────────────── Register ──────────────────────────────┐
//	           │ one transaction under the lock of the mark                          │
//	           │   token < mark, other issuer ─────────────────▶ refused             │
//	           │   token > mark, mark unconfirmed ─▶ MustRaise                       │
//	           │   sessions not under the mark ────▶ MustRevoke                      │
//	           │   else record the session ────────▶ Admitted: the client sees ready │
//	           └──▲───────────▲──────────────────────────────────────────────────────┘
//	              │           │
//	MustRaise:  Confirm    MustRevoke: Revoke
//	the Authority,         end them in the database, wait until it
//	then Raise (durable)   says that they are gone, forget them
//
// Before all that, Admission asks the Authority whether the tokens lead now. Precheck refuses
// earlier still, from memory.
//
// # Why it is safe
//
// ARCHITECTURE.md has the argument: invariants 2, 3 and 5. It does not depend on any order between
// guards: however they interleave and wherever they stop, the record decides. A guard that stops
// after Raise leaves a raised mark, and older sessions that live on until the next Register asks
// for their Revoke. The newer leader is not ready before that. A guard that stops after Revoke
// leaves nothing to repair.
//
// Marks and records are data, which can be lost, copied and restored. Two independent barriers
// still keep a deposed leader out (invariants 6, 7 and 13): the Authority, and the mark, which
// counts only on the run of the server on which it was raised and only as it was written there.
// Transactions and scripts under a token (Enter, Run) have only the second one. Without a
// coordinator there is only the mark: see Unverified for what it cannot see.
//
// # Another database
//
// marks/X implements Store, Admin and Authorizer, and markstest.Run checks it on a real server.
// guard.Upstream says what else its settings need of it: to dial, to probe, to install. Everything
// else here is the same for all databases. The database has to offer:
//
//	a mark        a row or key that changes under a lock, or by comparison, and is durable before the answer
//	its run       something that is new after each start, promotion or restore; a mark of another run is
//	              unconfirmed
//	a session     a name that no other connection ever has: with Postgres a pid and its start, with Redis a
//	              run and a client ID
//	its end       a way to end a session, and to see that the server itself has lost it
//	the sessions  who is registered, beside the mark, and whether that list is complete
//	an original   something that a copy of a mark lacks, after a dump that is put back or on a promoted replica:
//	              with Postgres xmin, with Redis the encoding (invariant 6). markstest cannot test that; see
//	              setback_test.go and swap_test.go
//	what remains  transactions that a session can leave behind, such as prepared ones: refuse to serve, or have
//	              Revoke end them
//	the role      who has logged in, in the server's own words, for Authorizer (invariant 19)
//
// Register, Raise and Revoke are a transaction or a script each, which hold the mark's lock from
// the first look to the last write. Raise asks its Confirm between two of them, and compares run
// and mark again. With scripts, redismarks is the example: lua/, then store.go and open.go. With
// SQL it is pgmarks: the SQL of internal/postgres/pgschema (server.sql and functions.sql first),
// then store.go, revoke.go, identity.go, dial.go; install.go, authorize.go; raiser.go for store/X;
// contract_test.go makes the Fixture.
package marks
