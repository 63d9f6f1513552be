// Package zookeeper keeps checkpoints in the ZooKeeper ensemble that also holds the elections: it is a
// checkpoint.Journal, for asynchronous steps. It needs no other store, and no mark has to be raised: the fence is the
// leader's own candidate in the election.
//
//	<root>/checkpoints/<task>    persistent; the checkpoint as JSON
//
// # Why no deposed leader publishes
//
// A publish is one ZooKeeper transaction: it checks that the leader's candidate, whose czxid is the token, still exists,
// and writes the checkpoint if the stored version is the one before. A newer leader leads only after the older
// candidate is gone, and ZooKeeper orders all writes; so nothing of the older one lands after the newer one has taken or
// published anything, be it paused, cut off, or still on its way. A candidate that only waits in the queue is refused,
// though its znode exists too. The argument in full is in package fence/zookeeper, whose Documents the checkpoints are.
// The journal's own connection and session play no part in it: the check names the leader's znode, whoever sends it. So
// a leader may publish through a journal that lost its session, and not one moment longer when it lost its own.
//
// Raise has nothing to raise: it makes sure, by a transaction of the ensemble, that the claim leads.
//
// # Versions
//
// A checkpoint's version is the znode's dataVersion plus 1, whatever its JSON says: both count writes, a checkpoint is
// made by version 1 and each publish is one write. One that was edited by hand is a new version, which followers see.
// ZooKeeper counts in an int32: a task can be published 2^31 times (at one per second for 68 years), then every publish
// is refused. The way on is an operator's, with the task's leaders stopped: read the znode, delete it, and make it anew
// with the same data; it goes on from there as version 1.
//
// # Limits
//
// A checkpoint may have 1,000,000 bytes as JSON (Options.Limit): ZooKeeper's own limit, jute.maxbuffer, is 1,048,575
// bytes for a request unless it is set otherwise. A checkpoint above the limit is refused with ErrTooLarge and not sent.
// A server that is set to less than the limit breaks the connection without an answer: the publish is answered with
// ErrUnknown each time, and the error names jute.maxbuffer. Every checkpoint is in the memory of every server and each
// publish in the transaction log of all: keep the state small, and large data elsewhere.
//
// A publish costs one write of the ensemble, which its leader and a majority have on disk before it is answered.
package zookeeper
