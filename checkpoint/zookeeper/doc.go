// Package zookeeper keeps checkpoints in the ZooKeeper ensemble that also holds the elections: it
// is a checkpoint.Journal, for asynchronous steps. It needs no other store, and no mark has to be
// raised: the fence is the leader's own candidate in the election.
//
//	<root>/checkpoints/<task>    persistent; the checkpoint as JSON
//
// # Why no deposed leader publishes
//
// A publish is one ZooKeeper transaction: it checks that the leader's candidate, whose czxid is the
// token, still exists, and writes the checkpoint if the stored version is the one before. The
// journal's own connection and session play no part in it: the check names the leader's znode,
// whoever sends it. So a leader may publish through a journal that lost its session, and not one
// moment longer when it lost its own.
//
// ZooKeeper orders all that is written, and a czxid is a place in that order. So:
//
//  1. A claim leads while its candidate exists and none with a lower czxid does. Names that appear
//     later have higher ones. So a claim that has been seen to lead once leads until its candidate
//     is gone, and a candidate that is gone never comes back: its name has a random GUID. The claim
//     is looked up once, by its czxid; a candidate that waits in the queue is refused there, though
//     its znode exists too.
//  2. Each write is a transaction of two halves: check that the candidate exists, and write the one
//     version that follows the stored one. Both happen at one place in the order, or neither does.
//  3. A newer claim leads only after the older candidates are gone. So in the order, all that older
//     leaders ever write comes before their candidates' end, and that before whatever the newer
//     leader writes. A write of theirs that was under way, or whose sender was paused, fails its
//     check when it arrives, from whatever session it was sent.
//  4. Take makes a transaction of its own that checks the candidate, and then reads, in the same
//     session: servers show a session nothing from before its own last transaction. By 3 nothing of
//     an older leader can come after that place. A sync would not do: a server that takes itself
//     for the ensemble's leader, but no longer is, answers it too.
//
// Nothing of this rests on a clock, nor on whose session a write is sent in: the check names the
// leader's own znode.
//
// Raise has nothing to raise: it makes sure, by a transaction of the ensemble, that the claim
// leads.
//
// # Versions
//
// A checkpoint's version is the znode's dataVersion plus 1, whatever its JSON says: both count
// writes, a checkpoint is made by version 1 and each publish is one write. One that was edited by
// hand is a new version, which followers see. ZooKeeper counts in an int32: a task can be published
// 2^31 times (at one per second for 68 years), then every publish is refused. The way on is an
// operator's, with the task's leaders stopped: read the znode, delete it, and make it anew with the
// same data; it goes on from there as version 1.
//
// # Limits
//
// A checkpoint may have 1,000,000 bytes as JSON (Options.Limit): ZooKeeper's own limit,
// jute.maxbuffer, is 1,048,575 bytes for a request unless it is set otherwise. A checkpoint above
// the limit is refused with ErrTooLarge and not sent. A server that is set to less than the limit
// breaks the connection without an answer: the publish is answered with ErrUnknown each time, and
// the error names jute.maxbuffer. Every checkpoint is in the memory of every server and each
// publish in the transaction log of all: keep the state small, and large data elsewhere.
//
// A publish costs one write of the ensemble, which its leader and a majority have on disk before it
// is answered.
package zookeeper
