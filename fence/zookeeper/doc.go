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
//
// # Who leads now
//
// Guards ask Leaders at every admission, so it has to be right, and it has to be cheap: one request
// while nothing changes. That request is a transaction of checks. A majority of the ensemble has to
// take it, so a server that has lost its ensemble, or that lags behind, cannot answer from what it
// knows. What the session has read earlier is true at the transaction's place in the order:
//
//  1. The first of one list of candidates leads until its znode is gone, for later candidates come
//     behind it, and no name comes back. The list may have been old when it was read. So the check
//     that the znode exists proves that its candidate leads. An acknowledgement is another znode, and
//     changes nothing of this. If the candidate is gone, the check fails, and Leaders looks again.
//  2. The issuer is as it was read if its znode has the version that it had: RenewIssuer raises it. A
//     znode that was deleted and made anew begins at version 0 again. So it was read with a watch. A
//     server tells a session of a change that it watches before it answers any later request of that
//     session, so a watch that has not fired when the answer is here proves that the znode is the same.
//  3. What was read belongs to the looking session, which lasts for one connection to one server. A
//     server that stops, or loses the leader of its ensemble, breaks its connections. So nothing is
//     remembered of an ensemble that was wiped since, restored from a backup, or replaced. Should it
//     ever be: an ensemble takes no transaction of a session that it does not know, and has no znode
//     with the random GUID of a candidate that enrolled elsewhere.
//  4. No check can prove that nobody leads. That is read after the transaction, in the same session:
//     servers show a session nothing from before its own last transaction. Whoever is found there is
//     remembered, and checked together with all others by one more transaction. So everybody who is
//     named leads at the same place in the order, under the issuer that is named.
//
// An ensemble that was restored from a backup may well name a leader of that time, until its session
// has timed out. That is who leads there; what the stores have accepted meanwhile, their marks know.
//
// # One token, one candidate
//
// All znodes that one multi creates have the same czxid. Ringfence creates each candidate by a
// request of its own; another program that makes two at once would give two processes one token, and
// no store can tell these apart. So neither leads: where the first two of an election have one czxid,
// Leaders, Candidates, Watch and Documents return an error. A campaign looks for such a candidate
// beside its own when it has enrolled, and ends with an error too.
//
// # Access
//
// With credentials in the URL, all that Ringfence creates can be read and changed by them alone.
// Without, anybody who reaches the ensemble can delete a leader's candidate, or make one; fencing
// works against processes that err, not against those. Znodes keep the access that they were created
// with, so credentials do not help against others where a root was made without. Open warns of both.
//
// To add credentials to such a root, first give them to every program, guards and readers of the
// status too, and restart it: without them nothing can be read any more, and a leader without them
// loses its term. Then give the older znodes to that user, once, in zkCli.sh:
//
//	addauth digest USER:PASSWORD
//	setAcl -R /ringfence auth::cdrwa
package zookeeper
