// Package zookeeper holds elections in an Apache ZooKeeper ensemble: it is a elector.Coordinator.
//
//	url := "zk://zk1:2181,zk2:2181,zk3:2181/ringfence"
//	coordinator, err := zookeeper.Open(ctx, url, zookeeper.Options{})
//	if err != nil {
//		return err
//	}
//	defer coordinator.Close()
//	lead := fence.Lead{Elector: coordinator, Resource: "orders", Holder: "billing-7", Stores: stores}
//	return lead.Run(ctx, work)
//
// The example is a complete leader program. Its package internal/ensemble has sessions and
// requests.
//
// # Layout
//
//	<root>/issuer                     persistent; a random UUID, created by the first client
//	<root>/elections/<resource>/      persistent
//	    c-<guid>-<sequence>           ephemeral, sequential; a candidate, JSON with its holder
//	    leader                        ephemeral; the acknowledgement, JSON with token and holder
//
// The token of a term is the czxid of its candidate: the number of the transaction that created the
// znode. It has 64 bits, counts over all znodes, and never repeats. The sequence suffix is an int32
// that wraps, and starts again if the parent is created again. So both the order and the token come
// from the czxid, and the suffix is only a hint as to which czxids to read.
//
// # A campaign
//
//	   session over, or own znode deleted: back off, start again
//	 ┌──────────────────────────────────────────────────────────────────────────────────────┐
//	 ▼                                                                                      │
//	session ──▶ enrol ──▶ read own czxid ──▶ find predecessors ──▶ wait ──▶ sync, read own znode ─▶ Term
//	            ▲   │                                              ▲  │
//	            └───┘ reply lost: find by GUID,                    └──┘ a watch fired
//	                  adopt if owned by this session
//
// The rules:
//
//   - All campaigns of a Coordinator share one session (fence/internal/campaign), so a process that
//     leads a thousand resources keeps one. No request runs in another session than the one that
//     enrolled (internal/ensemble).
//   - One list shows all predecessors, because later names are younger. Of those that the suffix
//     calls younger, the candidate reads the czxid, and all that it calls older must be gone before
//     the candidate leads. If the suffix was wrong, the candidate reads them all.
//   - A candidate watches only its nearest predecessor and itself, so a death wakes one candidate.
//     Foreign names and persistent znodes in an election are not candidates.
//   - Waking proves nothing. Only a read of the own znode wins a term: it follows a sync with the
//     ensemble's leader, is answered in the session that enrolled, and begins after all
//     predecessors are gone.
//   - Heartbeats confirm the terms, every quarter of the session timeout. The deadline counts from
//     the start of the round trip, with the timeout that the server granted, not the requested one.
//   - A term is suspended as soon as the connection breaks, and when a heartbeat is late.
//
// # A heartbeat
//
// One sync confirms all terms of the process. This is why that is enough:
//
//  1. Each candidate that leads has a watch on its own znode. The read that sets the watch finds
//     the znode that was enrolled, in this session. So the znode existed when the watch was set.
//  2. When the sync is answered, the server has applied everything that the ensemble's leader had
//     committed when the sync reached it. A deletion among that has fired the watch. ZooKeeper
//     orders notices and replies: a client gets the notice of a change before the reply to any
//     later request that is answered after the change ("What ZooKeeper Guarantees about Watches").
//  3. The library reads notices and replies in one loop, and hands on each notice before it reads
//     the next frame. So if the watch has not fired when the reply to the sync arrives, the znode
//     existed after the sync was sent.
//  4. A watch belongs to a connection. When that breaks, all watches fire (internal/ensemble), and
//     a watch that was set on another connection than the sync's confirms nothing.
//
// A watch that fires makes the session beat at once. A beat first reads the candidates with a watch
// that has fired or was set on an earlier connection, and loses those that are gone. It also reads
// each candidate at least once per session timeout, because a notice may be lost: some servers
// filter notices by the ACL, so the znode's new ACL can silence a watch. What it cannot read in an
// eighth of a session timeout is left to the next beat and is not confirmed until then, so a
// thousand candidates on a busy machine do not cost the session.
//
// # What a campaign leaves
//
// The session lives on when a campaign ends, so nothing of the campaign may stay. A beat deletes
// what could not be deleted before:
//
//   - A candidate with a known name is deleted by that name until the ensemble answers.
//   - A create without a reply may have made a znode of unknown name. The session looks for it by
//     its GUID. ZooKeeper refuses requests that an earlier connection to another server has left
//     behind, so the first look should be enough. In case the znode appears later, the session
//     looks again in intervals that double, as long as it lives: a znode is found after at most
//     twice its delay. One beat lists at most 16 elections for this.
//   - The acknowledgement is deleted in one transaction with its candidate. If the candidate was
//     deposed, it stays until the next leader replaces it or the session ends. Readers ignore an
//     acknowledgement unless it has the leader's token.
//
// # What a deadline is worth
//
// A server that has lost its ensemble answers reads for a while, but no sync, so it confirms no
// term. Two inaccuracies remain: the ensemble's leader learns up to one tick late from the other
// servers that a session is alive, and it answers syncs of its own clients without asking the
// others. Safety does not depend on either, because the stores fence.
//
// # Who leads now
//
// Guards call Leaders at every admission, so it must be right and cheap: it makes one request while
// nothing changes. That request is a transaction of checks, which needs a majority of the ensemble.
// So a server that lags behind or has lost its ensemble cannot answer it from memory. If the checks
// succeed, what the session has read earlier holds at the transaction's position in the order:
//
//  1. The first candidate of a list leads until its znode is gone, because later candidates queue
//     behind it and names never come back. That is true even if the list was old when it was read.
//     So the check that the znode exists proves that its candidate leads. The acknowledgement is
//     another znode and does not matter. If the candidate is gone, the check fails and Leaders
//     reads again.
//  2. The issuer is unchanged if its znode has the same version, which RenewIssuer raises, and was
//     not deleted and created again, which would start at version 0. A watch shows the latter. A
//     server sends a session the notice of a watched change before it answers any later request of
//     that session. So if the watch has not fired when the answer arrives, the znode is the same.
//  3. The cache belongs to the client's session, which lasts for one connection to one server. A
//     server that stops or loses the ensemble's leader breaks its connections. So nothing is cached
//     of an ensemble that has since been wiped, restored or replaced. Even if it were, an ensemble
//     accepts no transaction of an unknown session, and has no znode with the random GUID of a
//     candidate that enrolled elsewhere.
//  4. No check can prove that nobody leads. So Leaders reads that after the transaction, in the
//     same session: servers show a session nothing older than its own last transaction. If it finds
//     a leader, it caches it and checks all leaders with one more transaction. So all leaders that
//     it names lead at the same position in the order, under the issuer that it names.
//
// A change of documents under a claim, and a read under one, check the same: the version of the
// issuer's znode, and the candidate. The version counts only beside the issuer that was read with
// it, so a claim that this process remembers ends when the issuer is renewed. A change that was
// sent before its session heard that the issuer's znode was deleted and made again still succeeds;
// only an operator can delete it, by hand.
//
// An ensemble that was restored from a backup may name a leader of that time, until the restored
// session times out. That candidate leads there; the stores' marks know what they have accepted
// since.
//
// # Access
//
// With credentials in the URL, only that user can read and change what Ringfence creates. Without
// them, anybody who reaches the ensemble can delete a leader's candidate or make one; fencing
// protects from faulty processes, not from attackers. Znodes keep the ACL with which they were
// created, so a root that was created without credentials stays open. Open warns about both.
//
// docs/operating.md says how to add credentials to such a root.
package zookeeper
