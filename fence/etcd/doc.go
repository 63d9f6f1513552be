// Package etcd holds elections in an etcd cluster (3.4 or later). It is a elector.Coordinator.
//
//	coordinator, err := etcd.Open(ctx, "etcd://e1:2379,e2:2379,e3:2379/ringfence", etcd.Options{})
//	if err != nil {
//		return err
//	}
//	defer coordinator.Close()
//	lead := fence.Lead{Elector: coordinator, Resource: "orders", Holder: "billing-7", Stores: stores}
//	return lead.Run(ctx, work)
//
// # Guarantees
//
// The token of a term is the create revision of its candidate's key, which the cluster counts over
// all keys and never gives out twice. A term exists only once it is won, and it is lost on the
// local monotonic clock before its lease can run out. Every decision is a linearizable read or a
// transaction, so a member that lags behind or has lost its cluster decides nothing.
//
// A cluster that was restored from a snapshot counts from behind. Its cluster id may be another;
// then its tokens belong to another issuer. If not, the marks of the stores notice that its tokens
// are too low. Either way an operator adopts the resources (guard adopt --new-issuer).
//
// # Layout
//
//	<prefix>/issuer                                     a random identity; the first client makes it
//	<prefix>/elections/<resource>/<lease id>.<random>   a candidate, under its lease:
//	                                                    {"holder": "billing-7", "ready": true}
//
// The issuer of a claim is the cluster's id and this identity. The id alone is not enough, because
// a cluster that is built again with the same members and token has the same id.
//
// # A campaign
//
//	        lease lost, own key deleted: back off, start again
//	   ┌──────────────────────────────────────────────────────────┐
//	   ▼                                                            │
//	session ──▶ enrol ──▶ who is ahead of me? ──▶ nobody ──▶ lease renewed lately? ──▶ Term
//	                          ▲      │
//	                          └──────┘ somebody: wait until that key is deleted
//
// All candidates of a Coordinator are under one lease. Its session renews it every quarter of its
// time to live with one request, and then reads which of its candidates exist. A candidate that is
// read after the renewal began was under the lease at that time, so its term lasts from the start
// of that request for the time to live. etcd counts from when it received the request, which is
// later. The read also decides whether the renewal counts at all (see below).
//
// A candidate asks in one transaction whether its key is still the one that it enrolled, and which
// key has the greatest create revision below its own. It watches that key and its own, and nobody
// else: a death in an election of a thousand wakes one candidate. Waking proves nothing, so it asks
// again. It has won when there is no key below its own.
//
// # Which renewal counts
//
// The leader of a cluster renews a lease in its memory and asks no other member. One that was
// deposed while it was frozen or cut off renews leases until it hears of that, and its successor
// lets them run out without these renewals. So a renewal counts only if its answer has the same
// Raft term, T, as a linearizable read that began after it. Then the leader of T has renewed the
// lease, and no later leader was elected before that:
//
//   - The term in an answer is that of the last log entry that the member has applied. In the
//     answer to a renewal it was taken before the renewal. So an entry of T was committed by then,
//     and no leader of an earlier term can have a read confirmed any more.
//   - A leader confirms reads only after an entry of its own term is committed, and the member that
//     answers has applied that entry. So no leader of a later term has confirmed this one: the
//     leader of T has, by a majority that had not left T when the read began. Therefore every later
//     leader was elected after that, and so after the renewal.
//   - A member stops renewing leases for an earlier term before it applies an entry of T. So the
//     member that was asked was the leader of T, or passed the request on to it.
//   - The leader of T keeps the lease for its time to live from the renewal on. A later one counts
//     that time from its own election, which is later still.
//
// If the terms differ, the cluster has just elected a leader, or a member lags behind. Then the
// renewal does not count, and the session renews once more at once.
//
// # What goes wrong elsewhere, and here does not
//
//   - A reply that gets lost: an enrolment is conditional on its key, which no other candidate has,
//     so a repeated one finds the first.
//   - A request that arrives after its campaign has given up: the lease is renewed for the
//     process's other candidates, so the key would hold up the election for ever. Each beat of the
//     session deletes keys under the lease that belong to no candidate.
//   - A key that is deleted while its lease lives: the term ends, because the beat reads the keys.
//   - A watch that was compacted, or whose member has lost its leader, fails. Then the candidate
//     asks again. It does so after each session timeout, too, in case a notice was lost.
//   - No space left in etcd: it renews leases and refuses writes, so a leader that gave up because
//     it could not acknowledge would leave nobody who can enrol. Acknowledge only makes sure that
//     the term exists then, and a later heartbeat shows the leader as ready.
//   - A frozen member: requests go to the members in turn, so one of three would keep a heartbeat
//     waiting each time. A heartbeat tries twice, and deletes what belongs to nobody only after the
//     terms are confirmed.
//   - Two keys that one transaction made share a create revision. Nobody leads then, and the error
//     names the keys. Ringfence makes no such keys.
//
// # Access
//
// Without authentication in etcd, everybody who reaches it can depose leaders and make candidates.
// Give the prefix a role of its own: read and write on <prefix>/ and below. Leases have no access
// control.
package etcd
