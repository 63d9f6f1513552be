// Package redis serves Redis clients: it relays a client's own login, admits its session under a token, and then
// relays bytes. Commands and replies are walked by their RESP frames and never encoded anew.
//
// # The life of a connection
//
//	           one command at a time: forward it, relay exactly its reply, next
//	Handshake ────────────────────────────────────────────────────────────┐
//	   │  HELLO, AUTH, PING, SELECT, CLIENT, COMMAND, QUIT, reads, and what │ ◀─┐
//	   │  ends a script (SCRIPT KILL, FUNCTION KILL): forwarded             │   │
//	   │  anything else, and anything unknown: -NOTOKEN                     │ ──┘
//	   │
//	   │  FENCE r t, or a client name fence.r.t or fence.r=t by CLIENT SETNAME or HELLO
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
// Until it is admitted a client has a slot of the unadmitted (package guard), token or not, and loses it to others when
// it keeps the guard waiting. Only an admitted session takes one of the admitted.
//
// In the handshake nothing of the client but single commands that cannot write reaches Redis, however early it sends
// more; so the session is recorded before its first write, and every later leader finds and ends it.
//
// # When Redis is slow
//
// Redis runs one script at a time, and between two answers to a newcomer it runs one of every client that has sent one.
// An admission asks nine times, six of them before the older leader's scripts have ended. What it could not end in its
// time (10 s) is gone on with: the client is refused with REVOKE, and meanwhile the mark is raised and the older
// sessions are ended, so that it gets in when it claims again.
//
// While Redis is BUSY a script can be ended through the guard (SCRIPT KILL, FUNCTION KILL), and logging in goes on.
// While an operator has paused writes (CLIENT PAUSE WRITE) reads pass, with a token and without. While all commands are
// paused Redis answers nothing, not even CLIENT UNPAUSE. In each case a claim waits as long as an admission may take,
// and is then refused with REVOKE, with what is the matter and who can end it.
//
// # How a command is refused in the middle of a pipeline
//
// It is replaced, as a whole, by an unknown command with a name that nobody can guess. Redis answers it with an error
// in exactly the place where the client waits for one, be it in a pipeline, in MULTI (which it spoils, as any refused
// command does), or while subscribed; the way down puts the real error there. So nobody counts replies. The errors that
// wait for their places take less than 600 KB. A client that has turned its replies off, or does not read them, and
// goes on sending commands that are refused is ended with NOTALLOWED.
//
// # A command that does not fit
//
// The relay's buffer has 16 KiB. A longer command is decided on by the arguments that fit, and then passes as it comes.
// That begins as soon as the header of an argument shows that it cannot fit: a client whose argument is above
// proto-max-bulk-len sends no more, and waits for Redis to refuse it. An argument that does not fit is never one that
// makes a command allowed. The beginning of each later argument is looked at before it passes, for a name of our keys
// and, in HELLO and CLIENT SETNAME, for a claim. If there is one the session ends, because the command can no longer be
// taken back; Redis never runs a command that is not complete. Before the token a command has at most 64 KiB.
//
// # Where the wire differs from Redis
//
// What is malformed is answered with Redis' own error and the end of the connection, with these exceptions:
//
//   - Redis does not check the byte after the \r of a number, nor the two bytes after an argument. The guard wants CRLF,
//     so that no command can hide there ("an argument is longer than it says").
//   - Redis waits up to 64 KiB for the end of a line that is already wrong ("too big mbulk count string", "too big bulk
//     count string"). The guard says at once what is wrong, also with a zero byte in an inline line.
//   - An inline line has at most 8 KiB. Redis takes 64 KiB.
//   - Before the login Redis refuses more than 10 arguments, and arguments above 16 KiB, by their headers
//     ("unauthenticated multibulk length"). The guard passes such a command on once all of it has come.
//   - Lines of blanks and empty arrays are not passed on. Redis does not answer them. Valkey 8.1 takes any command after
//     a line of blanks for an inline one, and would run commands out of its values.
//
// # What shows of the guard in Redis
//
// It is the same on Redis 7.0, Redis 8.0 and Valkey 8.1. Valkey has COMMANDLOG beside SLOWLOG: what is said of SLOWLOG
// goes for its list "slow". For the lists "large-request" and "large-reply" nothing of the guard's is large enough, but
// CLIENT LIST where there are thousands of clients and all of them have to be ended.
//
// An admission is three commands on the client's own connection: CLIENT ID, CLIENT SETNAME with a random name, and
// CLIENT SETNAME with the name that the client has given it. They show in commandstats and MONITOR, in SLOWLOG when
// they are slow, and in ACL LOG when the user may not run one of them. Until the last of them CLIENT LIST has the
// random name.
//
// The guard has four connections of its own, called ringfence-guard in CLIENT LIST. At each admission, and when a
// session ends, they run scripts (EVALSHA), INFO, CLIENT LIST and CLIENT KILL. These, and what is called in the
// scripts, show in commandstats and MONITOR, and in SLOWLOG when they are slow. At most ten scripts count as cached
// ones; the first use of each is an error in errorstat_NOSCRIPT.
//
// The keys ringfence, ringfence:<resource> and ringfence:.audit are in database 0: in KEYS, SCAN, RANDOMKEY and DBSIZE,
// and in notifications of the key space. A client with CLIENT TRACKING ON BCAST hears of them at each admission, unless
// it names prefixes of its own (PREFIX); without BCAST it does not, for it cannot read them.
//
// A refused command adds one to total_error_replies and errorstat_ERR; in a transaction EXECABORT is counted as well,
// as for any refused command. Until the client's next command CLIENT LIST has cmd=NULL. Nothing shows in commandstats,
// MONITOR, SLOWLOG and ACL LOG. A guard that shuts down sends one such command on each connection.
//
// A command that Redis runs without an error cannot take the place of the unknown one. In MULTI it would be queued, and
// the transaction would run. To a subscriber in RESP2 Redis refuses all but a few commands, with an error that does not
// tell whose place it is in. A user may have no right to it, and ACL LOG would say so. It would show in commandstats,
// MONITOR and SLOWLOG.
//
// # What leads round the guard
//
// MOVED and ASK pass, though a guarded server is never part of a cluster; notices of maintenance (MOVING) cannot be
// asked for; CLUSTER and Sentinel replies name addresses, and a client that follows them is not fenced. A script can
// make up the name of a key of ours: applications' users should have key patterns that leave out ringfence*.
package redis
