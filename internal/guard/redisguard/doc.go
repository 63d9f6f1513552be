// Package redisguard is the guard's side of the Redis protocol. It relays a client's login, has the
// session admitted under the tokens that the client claims, and relays bytes from then on.
//
//	options := redismarks.Options{Coordinated: true}
//	store, err := redismarks.Open(ctx, "redis://guard:password@database:6379", options)
//	if err != nil {
//		return err
//	}
//	protocol := redisguard.New(redisguard.Options{
//		Store:     store,
//		Admission: &marks.Admission{Store: store, Authority: authority},
//	})
//	defer protocol.Close() // closes the store, too
//	server := guard.Server{Protocol: protocol, Listener: listener, Log: log, Metrics: metrics}
//	return server.Serve(ctx)
//
// A client claims tokens with a command, or with a client name:
//
//	FENCE orders 45
//	CLIENT SETNAME fence.orders.45
//	HELLO 3 SETNAME fence.orders=45
//
// # What it guarantees
//
// Before the session is admitted, only single commands of the client reach Redis, and only those
// that log it in, name it or ask what the server is, however early the client sends more. So the
// session is recorded before its first write, and every later leader finds and ends it.
//
// After admission commands and replies pass unchanged. The guard finds their ends by their RESP
// frames and never encodes them again. It passes only commands that it knows: commands.txt has a
// line for every command of the servers that the guard supports, with its effect on the fence. It
// refuses those that would touch marks or sessions, run on without the session, or keep Redis from
// admitting the next leader. A command that is not in the table is refused, unless an operator
// trusts it (Settings.TrustedCommands). Each such error arrives in the place of that command's
// reply.
//
// The table is about names, and a server's configuration can rename commands. So each control
// connection asks the server which command is behind each name that passes
// (redismarks.Options.Commands), and refuses a server that has another one there. A session is
// identified on a control connection, so it is one of a server that was asked.
//
// A session keeps its token for life. The guard refuses every other claim that comes later.
//
// # A certificate that names the user
//
// With TLS.VerifyName a session can be only one of the user that the client's certificate names
// (guard.OneUser). AUTH, HELLO and RESET are the commands that change a session's user. In the
// handshake and in the relay such a command passes only if the guard has all of it, knows every
// option in it, and finds that it logs in nobody but this user. So it never passes as a large one
// (below).
//
// Redis starts each session as one of default. In the handshake only AUTH, HELLO and QUIT pass
// until a login as the certificate's user has succeeded. Redis itself says that it has: each
// command is answered before the next one is sent, and no transaction is open that would queue the
// login. From then on the session stays one of that user, by the rule above. A claim does not rely
// on that: the line of CLIENT LIST that identifies the session names its user, which is compared
// before the mark is raised.
//
// # Where the wire differs from Redis
//
// The guard answers malformed input with Redis' own error, behind the answers to all commands
// before it, and closes the connection, with these exceptions:
//
//   - Redis does not check the byte after the \r of a number, nor the two bytes after an argument.
//     The guard wants CRLF, so that no command can hide there ("an argument is longer than it
//     says").
//   - Redis waits up to 64 KiB for the end of a line that is already wrong ("too big mbulk count
//     string", "too big bulk count string"). The guard reports the error at once. It also does so
//     for a zero byte in an inline line.
//   - An inline line has at most 8 KiB. Redis takes 64 KiB.
//   - Before the login Redis refuses more than 10 arguments, and arguments above 16 KiB, by their
//     headers ("unauthenticated multibulk length"). The guard passes such a command on once all of
//     it has come.
//   - The guard does not pass on blank lines and empty arrays. Redis does not answer them. After a
//     blank line Valkey 8.1 takes any command for an inline one, and would run commands out of its
//     values.
//   - Before admission a command has at most 64 KiB.
//   - A client that has used CLIENT REPLY gets the error at once. Redis never closes the connection
//     of one whose replies are off.
//
// # What shows of the guard in Redis
//
// This is the same on Redis 7.0, Redis 8.0 and Valkey 8.1. Valkey has COMMANDLOG beside SLOWLOG:
// what this says of SLOWLOG applies to its list "slow". Nothing of the guard's is large enough for
// the lists "large-request" and "large-reply", except CLIENT LIST when there are thousands of
// clients and all of them have to be ended.
//
// An admission is three commands on the client's own connection: CLIENT ID, CLIENT SETNAME with a
// random name, and CLIENT SETNAME with the name that the client has chosen. They show in
// commandstats and MONITOR, in SLOWLOG when they are slow, and in ACL LOG when the user may not run
// one of them. Until the last of them CLIENT LIST has the random name.
//
// Two connections watch the server, called ringfence-guard as those below. One waits in XREAD BLOCK
// and counts as blocked_clients, the other runs INFO and CLIENT LIST every second.
//
// The guard has four more connections of its own, called ringfence-guard in CLIENT LIST. At each
// admission, and when a session ends, they run scripts (EVALSHA), INFO, CLIENT LIST and CLIENT
// KILL. These, and the commands that the scripts call, show in commandstats and MONITOR, and in
// SLOWLOG when they are slow. At most ten scripts count as cached ones. The first use of each is an
// error in errorstat_NOSCRIPT.
//
// The keys ringfence, ringfence:<resource>, ringfence:.original, ringfence:.audit and, after a
// failover, ringfence:.left are in database 0. They show in KEYS, SCAN, RANDOMKEY and DBSIZE, and
// in keyspace notifications. A client with CLIENT TRACKING ON BCAST hears of them at each
// admission, unless it names prefixes (PREFIX). Without BCAST it does not, because it cannot read
// them.
//
// A refused command adds one to total_error_replies and errorstat_ERR. In a transaction Redis also
// counts EXECABORT, as for any refused command. Until the client's next command CLIENT LIST has
// cmd=NULL. Nothing shows in commandstats, MONITOR, SLOWLOG and ACL LOG. A guard that shuts down
// sends one such command on each connection.
//
// # What bypasses the guard
//
// MOVED and ASK pass, but a guarded server is never part of a cluster. Clients cannot ask for
// maintenance notices (MOVING) or redirections (CLIENT CAPA). CLUSTER and Sentinel replies name
// addresses, and a client that follows them is not fenced. A script can make up the name of one of
// the guard's keys, and run FLUSHALL, SWAPDB or MIGRATE: give applications' users key patterns that
// leave out ringfence*, and no @dangerous commands.
//
// # The states of a connection
//
//	           one command at a time: forward it, relay exactly its reply, next
//	Handshake ───────────────────────────────────────────────────────────┐
//	   │  what is early in commands.txt, as HELLO and AUTH: forwarded    │ ◀─┐
//	   │  what needs a token: -NOTOKEN; what never passes: -NOTALLOWED   │ ──┘
//	   │
//	   │  FENCE r t, or a client name fence.r.t or fence.r=t by CLIENT SETNAME or HELLO
//	   ▼
//	Claim      on the client's upstream connection: CLIENT ID, and a nonce for a name
//	   │       on the control connection: Identify, then Admission.Admit
//	   │       refused: one error for this and every further command, and the end
//	   ▼       then +OK, or the server's own reply
//	Relay      both ways, until one side leaves
//	   │       up:   refuses, by name, commands that would touch marks or sessions
//	   │       down: follows replies, to know where each ends
//	   ▼
//	End        the server closed: if a newer leader is the reason and the last reply is complete,
//	           the client gets -STALETOKEN
//
// Until a client is admitted it has an unadmitted slot (package guard), token or not, and loses it
// to others when it keeps the guard waiting. Its connection to Redis is made for its first command,
// and takes a login slot. Only an admitted session takes an admitted slot.
//
// # When Redis is full
//
// Redis accepts a connection even if it has maxclients already, and says so with its first answer.
// So until then the guard can send what it has sent on another connection: nothing was executed. A
// claim that the coordinator confirms makes room (room.go): clients without a token are evicted,
// and if that is not enough, the mark is raised and the older sessions end, as by a guard that
// follows the election. No one has logged in by then, so without a coordinator no session is ended.
//
// # When the server changes its role
//
// A session belongs to one run of one server, and ends when that is demoted. See primary, and Watch
// in redismarks. A server that does not answer for ten seconds, and a guard that has stood still,
// cost no session: the client's next bytes wait until the server has answered.
//
// # When Redis is slow
//
// Redis runs one script at a time, and between two answers to a newcomer it runs one script of
// every client that has sent one. An admission needs nine answers, six of them before the older
// leader's scripts have ended. If it runs out of time (10 s), the client is refused with REVOKE. In
// the background the guard raises the mark and ends the older sessions, so that the client gets in
// when it claims again.
//
// While Redis is BUSY, logins work, and a client can end the script through the guard (SCRIPT KILL,
// FUNCTION KILL). These need no token: otherwise a leader's script without end would keep the next
// leader out until an operator comes. Redis lets them end only a script that has written nothing.
// While an operator has paused writes (CLIENT PAUSE WRITE), reads of a session with a token pass.
// While all commands are paused, Redis answers nothing, not even CLIENT UNPAUSE.
//
// In each case a claim waits as long as an admission may take. Then it is refused with REVOKE; the
// error says what blocks Redis and who can end that.
//
// # How a command is refused in the middle of a pipeline
//
// The guard replaces the whole command by an unknown one, with a name that nobody can guess. Redis
// answers that with an error in exactly the place where the client waits for one, be it in a
// pipeline, in MULTI (which it aborts, as any refused command does), or while subscribed. On the
// way down the guard replaces that error by the real one, so it need not count replies. The errors
// that wait for their places take less than 600 KB. A client that has turned its replies off, or
// does not read them, and keeps sending commands that are refused, is ended with NOTALLOWED.
//
// A command that Redis runs without an error cannot take the place of the unknown one:
//
//   - In MULTI it would be queued, and the transaction would run.
//   - To a subscriber in RESP2 Redis refuses all but a few commands, with an error that does not
//     show which command it answers.
//   - A user may have no right to it, and ACL LOG would record that.
//   - It would show in commandstats, MONITOR and SLOWLOG.
//
// # A command that does not fit
//
// The relay's buffer has 16 KiB. The guard decides on a longer command by the arguments that fit,
// and then passes it on as it comes. If a certificate names the user, it refuses AUTH and HELLO
// instead. It starts as soon as the header of an argument shows that the argument cannot fit: a
// client whose argument is above proto-max-bulk-len sends no more, and waits for Redis to refuse
// it. An argument that does not fit never makes a command allowed.
//
// The guard checks the beginning of each later argument before it passes, for the name of a key of
// the guard's and, in HELLO and CLIENT SETNAME, for a claim. If it finds one, it ends the session,
// because it can no longer take the command back. Redis never runs an incomplete command.
package redisguard
