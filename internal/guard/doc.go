// Package guard is the proxy that people put in front of a database. It accepts, limits and drains
// connections, and knows no protocol. guard/postgres and guard/redis each speak one. Package marks
// decides who is admitted, and package relay passes the bytes of those that are.
//
// A guard keeps no authority in memory. It may be killed, paused, restarted or run ten times over:
// the marks and the sessions are in the database, and a guard reads there what it does not
// remember.
//
// # Who can keep whom out
//
// A connection needs a slot (Seat), of which there are three kinds. A client that is not admitted
// cannot take a slot of one that is. So no crowd of strangers keeps a leader's sessions out or ends
// one of them.
//
//	slot        limit                  who may take one               who may lose it to others
//	unadmitted  GUARD_MAX_UNADMITTED   anybody, from accept on        clients that keep the guard waiting
//	login       GUARD_MAX_LOGINS       Postgres clients that log in   the same
//	admitted    GUARD_MAX_CONNECTIONS  whom the store has admitted    nobody
//
// The first two kinds are shared out by address. The address with the fewest slots comes first;
// within one address, the connection that has waited longest, or the latest if an eviction has made
// the room. An eviction hits the address with the most slots, and there the client that has kept
// the guard waiting longest, provided that it has done so for the grace (1 s). Four times as many
// connections as there are slots may wait for one. Beyond that, the address with the longest queue
// loses its first. Clients behind one balancer have one address, and so have all clients on a Unix
// socket. An IPv6 network of 64 bits counts as one address.
//
// Admitted slots are not shared out by address. A newcomer waits for one as long as an admission
// may take. If older sessions of its resource hold them all, its own admission has ended these, so
// slots come free. If sessions of its own token or of other resources hold them all, it is refused.
//
// ringfence_connections_ended_total counts every refusal for lack of room by protocol and reason.
package guard
