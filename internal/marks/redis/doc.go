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
// Run and Script check the mark and run commands in one script, without a session: the documentation of store/redis, which
// offers them to leader code, says how and why that is safe.
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
