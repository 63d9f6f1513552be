// Package redis is Redis as leader code sees it: what a program that leads puts between itself and Redis so that its
// writes are fenced.
//
// Through a guard, every connection of a driver's client is a session under the token of one term:
//
//	db := redis.NewClient(term, &driver.Options{Addr: "guard:7379"}) // driver is github.com/redis/go-redis/v9
//
// Straight to Redis, commands carry the token themselves, in one script, over any client:
//
//	replies, err := redis.Run(ctx, db, term.Claim(), []any{"INCRBY", "balance", -5})
//
// Script does the same for Lua of one's own. Either way a term begins with a raise of the mark, which ends what older
// leaders have open (NewRaiser, in fence.Lead.Stores), and what a deposed leader sends later is refused with
// fence.ErrStale and leaves nothing behind.
//
// Redis needs a marker key: an operator runs guard install, and gives applications key patterns that leave out ringfence*.
//
// # Commands under a token
//
// Run and Script need no session and no guard. One script looks at the mark and runs the commands:
//
//	the mark is above the token, or of another issuer     ErrStale, ErrOtherIssuer
//	it is below, unconfirmed or missing                   ErrNotLeader: raise it, then try again (fence.Raising)
//	sessions under another token are still recorded       ErrNotLeader: likewise; the raise ends them
//	the marker is missing                                 ErrNotInstalled
//	else                                                  the commands are run
//
// Redis runs one script at a time and nothing beside it. So a raise comes before the script, which then refuses, or after
// it, when all that it wrote is there for the newer leader to read. Nothing is left open in between, no lock and no
// transaction: a raise has nobody to wait for and nobody to end, however long an older leader pauses, and a packet that
// was under way for an hour is refused on arrival. What a leader read before the script is not part of it.
//
// A call is sent once. Its answer may be lost all the same, and then the caller is told so (ErrUnknown).
package redis
