// Package refusal is the one place that says how a refusal and a claim travel between a client, a
// guard and a store: the code of each reason on each wire, and the forms in which a session carries
// its claims. Guards format and parse with it, and so do the clients of leader programs. What only
// one protocol has is in a file of its name: postgres.go, redis.go.
//
//	reason          Postgres   Redis
//	ErrStale        RF001      STALETOKEN
//	…               table.go has them all
//
//	carrier         form                          read by
//	startup option  options='-c fence.orders=45'  pgguard
//	client name     fence.orders.45               redisguard; fence.orders=45 is the older form
//	command         FENCE orders 45               redisguard
package refusal
