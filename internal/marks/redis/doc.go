// Package redis keeps marks and sessions in Redis: one hash per resource with the mark and the sessions under it, and
// a marker that names the resources. All Lua is in lua/, and every decision is one script.
//
// A session is a client connection, named by client id and the run_id of the server: ids start again when the server
// does. Revoke ends connections with CLIENT KILL ID and believes only the server that they are gone. Nothing of a
// killed client runs after that call, be it in MULTI, parked in BLPOP, or unread in a buffer; while a script of an
// older leader runs, the server answers BUSY, and Revoke waits.
//
// # Keys
//
//	ringfence              the marker: schema, epoch, the resources that have a mark
//	ringfence:<resource>   mark and sessions of one resource; both in one key, so that they are lost together
//	ringfence:.audit       a stream of adoptions
//	ringfence:.checkpoint… of checkpoint/redis
//
// They are in database 0, whatever number the URL names, and nobody else may write to them. The guard refuses commands that
// name them; a script can make up a name, so give applications key patterns that leave these out.
//
// # Commands under a token
//
// Run, and Script for Lua of one's own, need no session and no guard: the token goes with the commands, over any
// connection of any pool. One script looks at the mark and runs them:
//
//	the mark is above the token, or of another issuer     ErrStale, ErrOtherIssuer
//	it is below, unconfirmed or missing                   ErrNotLeader: raise it, then try again
//	sessions under another token are still recorded       ErrNotLeader: likewise; the raise ends them
//	the marker is missing                                 ErrNotInstalled
//	else                                                  the commands are run
//
// Redis runs one script at a time and nothing beside it. So a raise comes before the script, which then refuses, or after
// it, when all that it wrote is there for the newer leader to read. Nothing is left open in between, no lock and no
// transaction: a raise has nobody to wait for and nobody to end, however long an older leader pauses, and a packet that
// was under way for an hour is refused on arrival. What a leader read before the script is not part of it.
//
// A call is sent once. Its answer may be lost all the same, and then the caller is told so (ErrUnknown).
//
// NewClient is the other way, for programs that go through a guard: a driver's client whose connections are sessions under
// the token of one term, and end with it.
//
// # Redis loses data by design
//
//	restart, failover,      the server is another one (run id, replication id), or may have other data: marks are
//	SWAPDB                  unconfirmed, the registry is lost
//	key or marker missing   likewise
//
// Where the registry is lost, sessions that were in it may live on: a process that was a replica for a while keeps its
// connections. Raise then ends every client connection of the server, but the newcomer's, before it writes a mark anew, once
// for each server. That is rude, and it cuts the control links of other guards, which reconnect; but it is safe. A replication
// id also changes when a primary has had no replica for an hour, which ends connections for nothing.
//
// Without a coordinator an unconfirmed mark is raised when the data are there (Mark.Continued), or when this guard remembers
// the mark itself. Without a coordinator nobody can say what the marks were once the marker is gone: the store then counts as
// not installed, and Install is the operator's word that no older leader runs.
//
// What outlives a connection is out of reach: replicas and failover lose acknowledged writes, marks among them, and a
// deposed leader that still reaches a former primary writes there.
package redis
