// Package zookeeper holds elections in an Apache ZooKeeper ensemble: it is a fence.Coordinator.
//
// # Layout
//
//	<root>/issuer                          persistent; a random UUID, made once by whoever comes first
//	<root>/elections/<resource>/           persistent
//	    c-<guid>-<sequence>                ephemeral and sequential; one candidate, JSON with its holder
//	    leader                             ephemeral; the leader's acknowledgement, JSON with token and holder
//	<root>/<kind>/<name>                   persistent; one of Documents
//
// The token of a term is the czxid of its candidate: the number of the transaction that created the znode. The server
// counts it in 64 bits over all znodes and never twice. The sequence suffix is an int32 that wraps and starts again
// when the parent is made anew, so it is never looked at: order and token both come from the czxid.
//
// # A campaign
//
//		             session lost, own znode deleted, out of reach for a session timeout: back off, start anew
//		      ┌────────────────────────────────────────────────────────────────────────────────────┐
//		      ▼                                                                                      │
//		  dial a fresh session ──▶ enrol ──▶ read own czxid ──▶ find those before ──▶ wait ──▶ re-read own znode
//		                             ▲  │                                             ▲  │           │
//		                             └──┘ reply lost: find by GUID,                   └──┘           ▼ sync, then read:
//		                                  adopt if owned by this session            a watch fired   Term
//
//	  - Each campaign has a zk.Conn and a session of its own. The candidate, the acknowledgement and the session end
//	    together, whatever happens.
//	  - Those before are known after one list, for a name that appears later is younger. A candidate watches the nearest
//	    of them and itself, nobody else; so a death wakes one candidate. Foreign names and persistent znodes in an
//	    election are no candidates.
//	  - Waking proves nothing. Only a read of the own znode that went through the ensemble's leader, was answered in the
//	    session that made it, and was begun after all predecessors had gone, makes a term.
//	  - A term is confirmed by the same read, several times per session timeout. The deadline counts from the start of the
//	    read and with the timeout that the server granted, not the one that was asked for.
//
// # One session, never two
//
// A zk.Conn whose session has expired opens another one without asking, and runs in it whatever was queued. So each
// connection is read along: a greeting that does not carry the campaign's session is never shown to the zk.Conn (see
// link), and no request of a campaign can run in another session than the one that enrolled. Likewise a process never
// takes over the session of another process, though ZooKeeper would allow it: one token in two live processes would
// defeat fencing.
//
// # What a deadline is worth
//
// A server that has lost its ensemble answers reads for a while; the sync before each confirming read keeps such answers
// from prolonging a term. What remains is that the ensemble's leader learns of a session's life from the other servers
// up to a tick late. Safety does not rest on it: the stores fence.
//
// # Documents, and why no deposed leader writes one
//
// ZooKeeper orders all that is written, and a czxid is a place in that order. So:
//
//  1. A claim leads while its candidate exists and none with a lower czxid does. Names that appear later have higher
//     ones. So a claim that has been seen to lead once leads until its candidate is gone, and a candidate that is gone
//     never comes back: its name has a random GUID. The claim is looked up once, by its czxid; a candidate that waits in
//     the queue is refused there, though its znode exists too.
//  2. Each write is a transaction of two halves: check that the candidate exists, and write the one version that follows
//     the stored one. Both happen at one place in the order, or neither does.
//  3. A newer claim leads only after the older candidates are gone. So in the order, all that older leaders ever write
//     comes before their candidates' end, and that before whatever the newer leader writes. A write of theirs that was
//     under way, or whose sender was paused, fails its check when it arrives, from whatever session it was sent.
//  4. Take makes a transaction of its own that checks the candidate, and then reads, in the same session: servers show a
//     session nothing from before its own last transaction. By 3 nothing of an older leader can come after that place.
//     A sync would not do: a server that takes itself for the ensemble's leader, but no longer is, answers it too.
//
// Nothing of this rests on a clock, nor on whose session a write is sent in: the check names the leader's own znode.
package zookeeper
