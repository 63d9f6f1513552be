// Package fence is for programs that lead. It runs work for one term of leadership at a time, and
// has the types for it: terms, tokens, claims and refusals.
//
//	lead := fence.Lead{
//		Elector:  coordinator, // fence/zookeeper
//		Resource: "orders",
//		Holder:   "billing-7",
//		Stores:   []fence.Raiser{pgstore.NewRaiser("postgres://app@guard:6432/shop", nil)},
//	}
//	err := lead.Run(ctx, func(ctx context.Context, term *fence.Term) error {
//		pool, err := pgstore.NewPool(ctx, term, config)
//		if err != nil {
//			return err
//		}
//		defer pool.Close()
//		return work(ctx, pool) // ctx ends with the term; context.Cause says why
//	})
//
// Run waits until this process wins the election, raises the mark on every store, and then calls
// work. A store that has accepted the term's Token refuses every older one from then on; that makes
// writes safe. The term itself only makes refusals rare: between a check of its state and the next
// write, the process can be paused for any length of time.
//
// The package knows no coordinator and no database, and needs only the standard library. Those who
// write an elector make its terms with package fence/elector.
//
// # The life of a term
//
//	           wins, reads its own entry again
//	candidate ─────────────────────────────▶ Active ◀────────────────┐
//	                                          │  │                    │ Confirm: a round trip that
//	                              Suspend:    │  │                    │ started and ended before
//	                              out of reach│  │                    │ the deadline
//	                                          │  └──────▶ Suspended ──┘
//	                                          │               │
//	   Resign, Lose, Supersede, deadline      ▼               ▼
//	                                         Lost ◀───────────┘   for good; the context ends
//
// The deadline is the start of the last confirmed round trip plus the session timeout, on the
// monotonic clock. The coordinator starts its own count no earlier than that, so a slow reply
// cannot lengthen a term. A process that was paused finds its deadline passed as soon as it looks.
// That clock may stand still while a machine is suspended, or a virtual machine is saved and
// resumed. After that, work under a lost term may go on for at most the rest of the timeout; stores
// that have accepted a newer token refuse it, but effects outside of them may happen.
package fence
