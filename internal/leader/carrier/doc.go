// Package carrier puts the token of a term into the connections of a program that cannot do so: its own
// options are fixed, or nobody can change it. It listens on this machine, and passes on what it accepts to
// guards. It is LEADER_CARRY.
//
//	routes, err := carrier.Routes(setting, stores)
//	c, err := carrier.Open(ctx, routes, term.Claim(), log)
//	defer c.Close() // ends the connections; call it when the term is over
//	child.Env = append(os.Environ(), c.Environ()...)
//
// To Postgres the token travels in the startup packet. The program logs in by itself, through the carrier and the
// guard. At Redis a session without a login cannot claim, so the carrier logs in with the URL of the store, and sends
// FENCE. From there on all bytes pass as they are, through the relay of the guard: COPY, pipelines, RESP3. A
// request to cancel a query goes to the guard on a connection of its own, as the program sends it.
//
// # Who may connect
//
// The user of this process, and root. Whose connection it is, the kernel says: on a Unix socket everywhere,
// on a loopback address on Linux. Where it does not say so, a carrier to Redis does not listen on an address if
// the URL has a password, since it logs in with that.
//
// A connection is under the claim of the term in which it was opened, and ends with it. On a port that is chosen
// for each term, nothing of an earlier term finds the next one.
package carrier
