// Package guard is the proxy that people put in front of a database: it accepts, limits, drains and relays, and knows
// no protocol. guard/postgres and guard/redis each speak one; package marks decides who is admitted.
//
// A guard keeps no authority in memory. It may be killed, paused, restarted empty or run ten times over: the marks and
// the sessions are in the database, and what a guard forgets it reads there.
//
// # Who keeps whom out
//
// A connection needs a slot (Seat), and there are three kinds. Who is not admitted can take no slot of who is, so no
// crowd of strangers keeps a leader's sessions out or ends one of them.
//
//	slot        limit                  who may take one               who loses it to others
//	unadmitted  GUARD_MAX_UNADMITTED   everybody, from accept on      whoever keeps the guard waiting for its client
//	login       GUARD_MAX_LOGINS       Postgres clients that log in   the same
//	admitted    GUARD_MAX_CONNECTIONS  whom the store has admitted    nobody
//
// The first two are shared out by address. The address that holds the fewest slots is next, and of one address whoever
// has waited longest, or the latest where an eviction has made the room. An eviction hits the address that holds the
// most, and there the client that has kept the guard waiting longest, if it has done so for the grace (1 s). Four times
// as many as have a slot may wait for one; beyond that the address that has most in the queue loses its first. Clients
// behind one balancer have one address, and so have all on a Unix socket; an IPv6 network of 64 bits is one address
// too.
//
// Admitted slots are not shared out by address. A newcomer waits for one as long as an admission may take. Where they
// are all held by sessions that are older than its token, its own admission has ended these, so they come free. Where
// they are held by sessions of its own token, or of other resources, it is refused.
//
// Every refusal for want of room is counted, by protocol: guard_connections_total has those that could not even wait
// (too_many), guard_connections_ended_total those that were evicted, and those that found all admitted slots taken
// (full).
package guard
