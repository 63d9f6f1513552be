// Package redisstore fences a leader's writes to Redis.
//
// Lead works as the leader, with a client for each term that it wins:
//
//	lead := fence.Lead{Elector: elections, Resource: "orders", Holder: host}
//	err := redisstore.Lead(ctx, lead, "redis://app@guard:7379",
//		func(ctx context.Context, db *redis.Client) error { … })
//
// Every connection of such a client is a session under the token of the term, through a guard:
//
//	import driver "github.com/redis/go-redis/v9"
//
//	options, err := redisstore.ParseURL("rediss://app@guard:7379?sslrootcert=ca.pem&password_file=/run/secrets/app")
//	…
//	db := redisstore.NewClient(term, options) // the driver's: &driver.Options{Addr: "guard:7379"} does as well
//
// Straight to Redis, commands carry the token themselves, in one script, over any client:
//
//	var tx redisstore.Tx
//	tx.Do("INCRBY", "balance", -5)
//	replies, err := tx.Exec(ctx, db, term.Claim())
//
// Script does the same for your own Lua.
//
// Either way a term begins with a raise of the mark, which ends what older leaders have open. Give
// fence.Lead a NewRaiser in its Stores for that. Without a guard a Raiser keeps its connection for
// further terms, until it is closed. What a deposed leader sends later is refused with
// fence.ErrStale and leaves nothing behind.
//
// Redis needs a marker key: an operator runs guard install, and gives applications key patterns
// that leave out ringfence*.
//
// # Commands under a token
//
// A Tx and a Script need no session and no guard. One script checks the mark and runs the commands:
//
//	the mark is above the token          ErrStale
//	it is of another issuer              ErrOtherIssuer
//	it is below, unconfirmed or missing  ErrNotRaised: raise it, then try again (fence.Claim.RetryRaised)
//	sessions under another token are     ErrNotRaised: the same; the raise ends them
//	still recorded
//	marker and mark are missing          ErrNotInstalled
//	otherwise                            the commands run
//
// Redis runs one script at a time and nothing beside it. So a raise comes before the script, which
// then refuses, or after it, when the newer leader can read all that the script wrote. Nothing is
// left open in between, no lock and no transaction. So a raise has nobody to wait for and nobody to
// end, however long an older leader pauses. A packet that was under way for an hour is refused on
// arrival. What a leader read before the script is not part of it.
//
// A call is sent once. If its answer is lost, the caller gets ErrUnknown.
package redisstore
