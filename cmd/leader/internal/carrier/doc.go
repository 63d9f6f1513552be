// Package carrier puts the token of a term into the connections of a program that cannot do so: its
// own options are fixed, or nobody can change it. It listens on this machine, and passes on what it
// accepts to guards. It is LEADER_CARRY.
//
//	routes, err := carrier.Routes(setting, stores)
//	only := carrier.NewCommand(child.Mark)
//	c, err := carrier.Open(ctx, routes, term.Claim(), only.Admit, log)
//	defer c.Close() // ends the connections; call it when the term is over
//	env = environ.With(env, c.Environ())
//	err = child.Start(argv, env, …)
//	only.Started(child.Pid())
//
// To Postgres the token travels in the startup packet. The program logs in by itself, through the
// carrier and the guard. At Redis a session without a login cannot claim, so the carrier logs in
// with the URL of the store, and sends FENCE. From there on all bytes pass as they are, through the
// relay of the guard: COPY, pipelines, RESP3. A request to cancel a query goes to the guard on a
// connection of its own, as the program sends it.
//
// # Who may connect
//
// The caller says it of what the kernel tells about the peer. On a Unix socket that is the process
// (Linux) or its user. On a loopback address it is the socket's inode and the user on Linux, and
// nothing elsewhere: a carrier to Redis does not listen on an address there if the URL has a
// password, since it logs in with that.
//
// A [Command] admits the processes of one command and no others, on Linux. An agent does not know
// which processes a client has, and admits those of its user.
//
// A connection is under the claim of the term in which it was opened, and ends with it. A process
// that is left over from a term keeps its address and tries again. So no later term may have it:
// without an address in LEADER_CARRY, each has its own. A port alone comes again: of 28,000, the
// 57th later term had one.
package carrier
