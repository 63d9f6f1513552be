// Package marks decides who may write: it keeps one mark per resource and the sessions under it, in the database that
// is written to. The database is the only authority; a guard's memory can refuse early but never admits.
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
// Before all that Admission asks the Authority whether the tokens lead now. Known refuses earlier still, from memory.
//
// # Why it is safe
//
// A session is recorded only while the mark is locked, equal to its token, and no session under another token is
// recorded. A record is removed only when the database says that the session is gone. So at no moment do two sessions
// of one resource live under different tokens, and once a session under token t is ready no effect of an older one can
// start. This needs no order between guards: whatever they interleave, wherever they stop, the record decides. Nothing
// is checked per write, so there is no gap between a check and a write: an older session no longer exists.
//
// A guard that stops after Raise leaves a raised mark and older sessions that live on until the next Register asks for
// their Revoke; the newer leader is not ready before that. A guard that stops after Revoke leaves nothing to mend.
//
// # When the store goes back
//
// Marks and records are data, and data can be lost, copied and restored. Two barriers that do not depend on each other
// keep a deposed leader out all the same:
//
//   - The Authority is asked at every admission. With a coordinator a token that does not lead now is refused, whatever
//     the mark says.
//   - A mark counts only on the run of the server on which it was raised, and only as it was written there. The list of
//     sessions counts only on one run, and one creation of the tables; where it may be incomplete, everybody whom it may
//     have held is ended before the first newcomer.
//
// Transactions and scripts under a token (Enter, Run) cannot ask the coordinator each time, and have the second barrier
// alone. Without a coordinator there is the mark alone: see Unverified for what that cannot see.
package marks
