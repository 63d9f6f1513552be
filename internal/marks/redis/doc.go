// Package redis keeps marks and sessions in Redis: one hash per resource with the mark and the
// sessions under it, and a marker key that names the resources. The Lua scripts are in lua/. Each
// of them makes one decision atomically.
//
//	options := redis.Options{Coordinated: true}
//	store, err := redis.Open(ctx, "redis://guard:password@database:6379", options)
//	if err != nil {
//		return err
//	}
//	defer store.Close()
//	admission := &marks.Admission{Store: store, Authority: marks.Elected{Observer: coordinator}}
//
// Leader code runs commands under a token with Run and Script. They check the mark and run the
// commands in one script, without a session. Package store/redis offers them, and its documentation
// says how and why that is safe.
//
// # What it guarantees
//
// A session is a client connection. The client id and the run_id of the server identify it, because
// ids start again when the server does. Revoke ends connections with CLIENT KILL ID, and believes
// only the server's list of clients that they are gone. Nothing of a killed client runs after that
// call, be it in MULTI, parked in BLPOP, or unread in a buffer. While a script of an older leader
// runs, the server answers BUSY, and Revoke waits.
//
// What outlives a connection is out of reach. Replicas and failover lose acknowledged writes, marks
// among them, and a deposed leader that still reaches a former primary writes there.
//
// # Keys
//
//	ringfence              the marker: schema, epoch, the resources that have a mark
//	ringfence:<resource>   mark and sessions of one resource: one key, so they are lost together
//	ringfence:.audit       a stream of adoptions
//	ringfence:.checkpoint… of checkpoint/redis
//
// They are in database 0, whatever number the URL names, and nobody else may write to them. The
// guard refuses commands that name them. A script can make up a name, so give applications key
// patterns that leave these out.
//
// # Redis loses data by design
//
//	restart, failover,      the server is another one (run id, replication id), or may have other
//	SWAPDB                  data: marks are unconfirmed, the registry is lost
//	key or marker missing   the same
//
// When the registry is lost, sessions that were in it may still be alive: a process that was a
// replica for a while keeps its connections. Raise then ends every client connection of the server
// except the newcomer's before it writes a mark again, once per server. That is rude, and it cuts
// the control connections of other guards, which reconnect, but it is safe. A replication id also
// changes when a primary has had no replica for an hour. That ends connections needlessly.
//
// Without a coordinator an unconfirmed mark is raised when the data are there (Mark.Continued), or
// when this guard remembers the mark itself. If the marker is gone, nobody can then say what the
// marks were, and the store counts as not installed. An operator who runs Install asserts that no
// older leader runs.
package redis
