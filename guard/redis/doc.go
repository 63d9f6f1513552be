// Package redis serves Redis clients: it relays a client's own login, admits its session under a token, and then
// relays bytes. Commands and replies are walked by their RESP frames and never encoded anew.
//
// # The life of a connection
//
//	           one command at a time: forward it, relay exactly its reply, next
//	Handshake ────────────────────────────────────────────────────────────┐
//	   │  HELLO, AUTH, PING, SELECT, CLIENT, COMMAND, QUIT, reads: forwarded│ ◀─┐
//	   │  anything else, and anything unknown: -NOTOKEN                     │ ──┘
//	   │
//	   │  FENCE r t, or a client name fence.r=t by CLIENT SETNAME or HELLO
//	   ▼
//	Claim      on the client's own leg: CLIENT ID, and a nonce for a name
//	   │       on the control connection: Identify, then Admission.Admit
//	   │       refused: one error for this and every further command, and the end
//	   ▼       then +OK, or the server's own reply
//	Relay      both ways, until one side leaves
//	   │       up:   refuses by name what would touch marks or sessions, in order
//	   │       down: follows replies, to know where one ends
//	   ▼
//	End        the server left: at the end of a reply the client is told -STALETOKEN, if that is why
//
// In the handshake nothing of the client but single commands that cannot write reaches Redis, however early it sends
// more; so the session is recorded before its first write, and every later leader finds and ends it.
//
// # How a command is refused in the middle of a pipeline
//
// It is replaced, as a whole, by an unknown command with a name that nobody can guess. Redis answers it with an error
// in exactly the place where the client waits for one, be it in a pipeline, in MULTI (which it spoils, as any refused
// command does), or while subscribed; the way down puts the real error there. So nobody counts replies.
//
// # What leads round the guard
//
// MOVED and ASK pass, though a guarded server is never part of a cluster; notices of maintenance (MOVING) cannot be
// asked for; CLUSTER and Sentinel replies name addresses, and a client that follows them is not fenced. A script can
// make up the name of a key of ours: applications' users should have key patterns that leave out ringfence*.
package redis
