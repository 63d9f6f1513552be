// Package zookeeper holds elections in an Apache ZooKeeper ensemble: it is a fence.Coordinator.
//
//	coordinator, err := zookeeper.Open(ctx, "zk://zk1:2181,zk2:2181,zk3:2181/ringfence", zookeeper.Options{})
//	if err != nil {
//		return err
//	}
//	defer coordinator.Close()
//	lead := fence.Lead{Elector: coordinator, Resource: "orders", Holder: "billing-7", Stores: stores}
//	return lead.Run(ctx, work)
//
// The example is a whole leader program. Sessions and requests are in package internal/ensemble,
// and what elections look like to everybody who reads them in package internal/ensemble/election.
//
// # Layout
//
//	<root>/issuer                          persistent; a random UUID, made once by whoever comes first
//	<root>/elections/<resource>/           persistent
//	    c-<guid>-<sequence>                ephemeral and sequential; one candidate, JSON with its holder
//	    leader                             ephemeral; the leader's acknowledgement, JSON with token and holder
//
// The token of a term is the czxid of its candidate: the number of the transaction that created the
// znode. The server counts it in 64 bits over all znodes and never twice. The sequence suffix is an
// int32 that wraps and starts again when the parent is made anew, so it is never looked at: order
// and token both come from the czxid.
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
//	    together, whatever happens; no request runs in another session than the one that enrolled (internal/ensemble).
//	  - Those before are known after one list, for a name that appears later is younger. A candidate watches the nearest
//	    of them and itself, nobody else; so a death wakes one candidate. Foreign names and persistent znodes in an
//	    election are no candidates.
//	  - Waking proves nothing. Only a read of the own znode that went through the ensemble's leader, was answered in the
//	    session that made it, and was begun after all predecessors had gone, makes a term.
//	  - A term is confirmed by the same read, several times per session timeout. The deadline counts from the start of the
//	    read and with the timeout that the server granted, not the one that was asked for.
//
// # What a deadline is worth
//
// A server that has lost its ensemble answers reads for a while; the sync before each confirming
// read keeps such answers from prolonging a term. What remains is that the ensemble's leader learns
// of a session's life from the other servers up to a tick late. Safety does not rest on it: the
// stores fence.
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
//     that the znode exists proves that its candidate leads. An acknowledgement is another znode,
//     and changes nothing of this. If the candidate is gone, the check fails, and Leaders reads
//     again.
//  2. The issuer is as it was read if its znode has the version that it had: RenewIssuer raises it.
//     A znode that was deleted and made anew begins at version 0 again. So it was read with a
//     watch. A server tells a session of a change that it watches before it answers any later
//     request of that session, so a watch that has not fired when the answer is here proves that
//     the znode is the same.
//  3. What was read belongs to the client's session, which lasts for one connection to one server.
//     A server that stops, or loses the leader of its ensemble, breaks its connections. So nothing
//     is remembered of an ensemble that was wiped since, restored from a backup, or replaced.
//     Should it ever be: an ensemble takes no transaction of a session that it does not know, and
//     has no znode with the random GUID of a candidate that enrolled elsewhere.
//  4. No check can prove that nobody leads. That is read after the transaction, in the same
//     session: servers show a session nothing from before its own last transaction. Whoever is
//     found there is remembered, and checked together with all others by one more transaction. So
//     everybody who is named leads at the same place in the order, under the issuer that is named.
//
// An ensemble that was restored from a backup may well name a leader of that time, until its
// session has timed out. That is who leads there; what the stores have accepted meanwhile, their
// marks know.
//
// # Access
//
// With credentials in the URL, all that Ringfence creates can be read and changed by them alone.
// Without, anybody who reaches the ensemble can delete a leader's candidate, or make one; fencing
// works against processes that err, not against those. Znodes keep the access that they were
// created with, so credentials do not help against others where a root was made without. Open warns
// of both.
//
// To add credentials to such a root, first give them to every program, guards and readers of the
// status too, and restart it: without them nothing can be read any more, and a leader without them
// loses its term. Then give the older znodes to that user, once, in zkCli.sh:
//
//	addauth digest USER:PASSWORD
//	setAcl -R /ringfence auth::cdrwa
package zookeeper
