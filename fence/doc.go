// Package fence has the nouns of fencing: a Token numbers a Term, an Elector wins terms, a Refusal is what a store
// answers to a token that may not write. It knows no coordinator and no database, and imports nothing but the standard
// library. fence/zookeeper holds elections; store and guard refuse.
//
// # The life of a term
//
//	           wins, re-reads its own entry
//	candidate ─────────────────────────────▶ Active ◀────────────────┐
//	                                          │  │                    │ Confirm: a round trip that was
//	                              Suspend:    │  │                    │ started before the deadline,
//	                              out of reach│  │                    │ answered before the deadline
//	                                          │  └──────▶ Suspended ──┘
//	                                          │               │
//	   Resign, Lose, Supersede, deadline      ▼               ▼
//	                                         Lost ◀───────────┘   for good; the context ends with the cause
//
// The deadline is the start of the last confirmed round trip plus the session timeout, on the monotonic clock. It is
// counted from the start because the coordinator began its own count no earlier than that; so a slow reply cannot
// stretch a term. A process that was paused finds its deadline passed as soon as it looks.
//
// # What this package does not do
//
// A term makes refusals rare; it does not make writes safe. Between the last look at the state and the write the
// process can be paused for as long as one likes. Safety comes from the check at the store, which needs neither the
// clock nor the good manners of the leader: see package store.
package fence
