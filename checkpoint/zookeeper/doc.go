// Package zookeeper keeps checkpoints in the ZooKeeper ensemble that also holds the elections. It
// is a checkpoint.Journal for asynchronous steps. It needs no other store and no mark: the fence is
// the leader's candidate in the election.
//
//	url := "zk://zk1:2181,zk2:2181,zk3:2181/ringfence"
//	journal, err := zookeeper.Open(ctx, url, zookeeper.Options{})
//	if err != nil {
//		return err
//	}
//	defer journal.Close()
//
// Each task has a persistent znode, <root>/checkpoints/<task>, with the checkpoint as JSON.
//
// # Why no deposed leader publishes
//
// A publish is one ZooKeeper transaction. It checks that the leader's candidate, whose czxid is the
// token, still exists, and writes the checkpoint if the stored version is the one before. The check
// names the leader's znode, so it does not matter in which session the publish is sent. A leader
// may publish through a journal that has lost its session. It can no longer publish once the
// session of its term is lost.
//
// ZooKeeper orders all writes, and a czxid is a position in that order. So:
//
//  1. A claim leads while its candidate exists and no candidate with a lower czxid does. Later
//     candidates have higher ones. A candidate that is gone never comes back, because its name
//     contains a random GUID. So a claim that has led once leads until its candidate is gone. The
//     journal looks a claim up once, by its czxid. This lookup refuses a candidate that waits in
//     the queue, although its znode exists too.
//  2. Each write is a transaction of two parts: check that the candidate exists, and write the
//     version that follows the stored one. Both happen at one position in the order, or neither.
//  3. A newer claim leads only after the older candidates are gone. So all writes of older leaders
//     come before the end of their candidates, and that comes before all writes of the newer
//     leader. A write that was on its way, or whose sender was paused, fails its check when it
//     arrives.
//  4. Take sends a transaction that checks the candidate and then reads in the same session.
//     Servers show a session nothing older than its own last transaction, and by 3 no write of an
//     older leader comes after it. A sync would not suffice: a server that believes that it still
//     leads the ensemble answers a sync too.
//
// A deletion (Forget) is such a transaction, too, and names the version that it deletes.
//
// None of this relies on a clock.
//
// Raise has no mark to raise. It confirms, with a transaction of the ensemble, that the claim
// leads.
//
// # Versions
//
// A checkpoint's version is the znode's dataVersion plus 1, whatever the JSON says: both count
// writes, and each publish is one write. If an operator edits the znode, that is a new version,
// which followers see. ZooKeeper counts in an int32. A task can be published 2^31 times (for 68
// years at one per second); after that every publish is refused. To continue, stop the task's
// leaders, read the znode, delete it, and create it again with the same data. The task continues
// from there as version 1.
//
// # Limits
//
// A checkpoint may have 1,000,000 bytes as JSON (Options.Limit). ZooKeeper's own limit for a
// request, jute.maxbuffer, is 1,048,575 bytes by default. A checkpoint above the journal's limit is
// refused with ErrTooLarge and not sent. If a server's limit is lower, it breaks the connection
// without an answer; every such publish returns ErrUnknown, and the error names jute.maxbuffer.
// Every server holds all checkpoints in memory and all publishes in its transaction log, so keep
// the state small and large data elsewhere.
//
// A publish costs one write of the ensemble: its leader and a majority have it on disk before they
// answer.
package zookeeper
