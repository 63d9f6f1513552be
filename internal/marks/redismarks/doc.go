// Package redismarks keeps marks and sessions in Redis: one hash per resource with the mark and the
// sessions under it, and a marker key that names the resources. The Lua scripts are in lua/. Each
// of them makes one decision atomically.
//
//	options := redismarks.Options{Coordinated: true}
//	store, err := redismarks.Open(ctx, "redis://guard:password@database:6379", options)
//	if err != nil {
//		return err
//	}
//	defer store.Close()
//	admission := &marks.Admission{Store: store, Authority: marks.Elected{Observer: coordinator}}
//
// Leader code runs commands under a token with Run and Script, without a session: see
// store/redisstore.
//
// # What it guarantees
//
// A session is a client connection. The client id and the run_id of the server identify it, because
// ids start again when the server does. Revoke ends connections with CLIENT KILL ID, and believes
// only the server's list of clients that they are gone. Nothing of a killed client runs after that
// call, be it in MULTI, parked in BLPOP, or unread in a buffer. While a script of an older leader
// runs, the server answers BUSY, and Revoke waits.
//
// A failover moves the records, and not the connections. A raise that finds records of another run
// ends those sessions at the replicas of its server before it raises the mark, and names what it
// does not reach (Mark.Left). Later raises try again. A Watch tells a guard that its server was
// demoted.
//
// What outlives a connection is out of reach. Replicas and failover lose acknowledged writes, marks
// and records among them, and a deposed leader that still reaches a former primary writes there.
//
// # Functions for other languages
//
// lua/functions.lua has functions with which a program in any language takes a token and runs
// commands under it (docs/redis.md). Library makes them a library for FCALL, FunctionScript one
// script for EVALSHA. They share the check (lua/gate.lua) and the marks with Run and Script:
//
//	ringfence_take   raises the mark to the next number, and returns it with a name that no other take
//	                 has. Redis may lose marks and give a number out again; the name tells the two apart
//	ringfence_bring  raises it to somebody else's number
//	ringfence_exec   runs commands while the mark is the caller's
//
// A script cannot end a connection. So no session is ever recorded under a mark of a function:
// Register and Raise refuse the issuers "take" and "bring:…", and functions refuse a resource that
// guards have raised, also one whose mark is lost. With no sessions to end, such a mark does not
// depend on the registry: after a restart the next take confirms it, and leaves the registry lost
// for guards. The field functions of the marker names the server for which ringfence:.original was
// made then.
//
// # Keys
//
//	ringfence              the marker: schema, epoch, the resources that have a mark
//	ringfence:<resource>   mark and sessions of one resource: one key, so they are lost together
//	ringfence:.original    tells data that were written here from data that were loaded
//	ringfence:.allowed     who may claim what
//	ringfence:.audit       a stream of adoptions
//	ringfence:.left        sessions at other servers that no raise has reached yet
//	ringfence:.watch       never there: what a Watch waits for
//	ringfence:.checkpoint… of checkpoint/redisjournal
//
// They are in database 0, whatever number the URL names. Nobody else may write to these names, in
// any database. The guard refuses commands that name them. A script can make up a name, so give
// applications key patterns that leave these out.
//
// # Redis loses data by design
//
//	restart, failover           the server is another one (run id, replication id): marks are
//	                            unconfirmed, the registry is lost
//	key or marker missing       the same
//	other data by SWAPDB,       the same as a missing marker
//	earlier data loaded
//
// When the registry is lost, sessions that were in it may still be alive: a process that was a
// replica for a while keeps its connections. Raise then ends every client connection of the server
// except the newcomer's before it writes a mark again, once per server. That is rude, and it cuts
// the control connections of other guards, which reconnect, but it is safe.
//
// A replication id also changes when a primary gets its first replica, and when it has had none for
// an hour (repl-backlog-ttl). Nothing is lost then, and connections are ended needlessly. Redis
// does not say so: in both cases master_replid2 is empty afterwards. It is just as empty after a
// time as a replica, with the data of another server, whose history has expired. So there is no
// proof by which to spare anybody.
//
// Without a coordinator an unconfirmed mark is raised when the data are there (Mark.Continued), or
// when this guard remembers the mark itself. If the marker is gone, nobody can then say what the
// marks were, and the store counts as not installed. An operator who runs Install asserts that no
// older leader runs.
//
// # One database counts
//
// SWAPDB exchanges whole databases, also in a script or a transaction, and can bring an earlier
// mark back. Only statistics show that it was called, and operators reset those. So the data
// themselves show what is the latest. Before a script writes a mark, a session or who may claim
// what, it makes database 0 the only one that counts (alone in lua/common.lua). In every other
// database it deletes the marker, and it takes the epoch from the record that it is about to
// write. From then on:
//
//   - No other database has a marker.
//   - SWAPDB moves the marker. FLUSHDB, DEL and eviction remove it. None of them makes a second
//     one.
//   - COPY makes a second one. It says the same as the first until a script writes, which deletes
//     it. COPY takes one key at a time, so a record may be copied before a raise and the marker
//     after it. The raise has taken the epoch from that record, so the marker does not vouch for
//     it.
//
// So database 0 has either what was written last or no marker, and then everything counts as
// lost. If nothing was written while the data were away, nothing is lost, and nobody is ended. A
// script that only removes sessions that have ended, or announces the end of all connections,
// leaves copies as they are. Such a copy names more sessions or lacks the announcement, which
// admits nobody.
//
// Redis does not stop within a script and keep half of it. After a restart or a change of roles
// no marker counts anyway until a raise has confirmed it.
//
// # Earlier data that are loaded
//
// DEBUG RELOAD NOSAVE loads an earlier RDB file into the same run, and RESTORE the keys of an
// earlier DUMP. Run id and replication id stay. ringfence:.original shows that. It is a short
// string, and SETRANGE has made it, so its encoding is "raw". Files and dumps do not keep the
// encoding, and Redis loads a short string as "embstr". The marker notes the encoding of its
// time. If a marker of this server meets another encoding, the data were loaded since, and the
// marker counts as missing.
//
// This is a sign and no proof. It does not show keys that are written or restored one by one, an
// append-only file that DEBUG LOADAOF loads after appendonly was switched off, and nothing at all
// after the string was evicted. Then only a coordinator refuses a deposed leader: a guard without
// one and Run believe the mark. Redis 7.0 and later refuse DEBUG by default
// (enable-debug-command).
package redismarks
