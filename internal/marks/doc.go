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
// A session is recorded only while the mark is locked, equals its token, and no session under
// another token is recorded. A record is removed only when the database says that the session is
// gone, or shows the proof that nothing of its client is left to be executed (Proof). So no
// two sessions of one resource can write under different tokens, and once a session under token t is
// ready, no effect of an older one can start. This does not depend on any order between guards:
// however they interleave and wherever they stop, the record decides. Nothing is checked per write,
// so there is no gap between a check and a write: an older session can no longer write.
//
// A guard that stops after Raise leaves a raised mark, and older sessions that live on until the
// next Register asks for their Revoke. The newer leader is not ready before that. A guard that
// stops after Revoke leaves nothing to repair.
//
// # When the store is rolled back
//
// Marks and records are data, which can be lost, copied and restored. Two independent barriers
// still keep a deposed leader out:
//
//   - Every admission asks the Authority. With a coordinator, a token that does not lead now is refused
//     whatever the mark says.
//   - A mark counts only on the run of the server on which it was raised, and only as it was written
//     there. The list of sessions counts only on one run, and one creation of the tables. Where the list
//     may be incomplete, every session that it may have held is ended before the first newcomer.
//
// Transactions and scripts under a token (Enter, Run) cannot ask the coordinator each time, so they
// have only the second barrier. Without a coordinator there is only the mark: see Unverified for
// what it cannot see.
package marks
