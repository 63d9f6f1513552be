// Package campaign runs the campaigns of a process over one session at its coordinator. So a
// process that leads a thousand resources renews one session. fence/etcd, fence/postgres and
// fence/zookeeper use it; each supplies what a session and a candidate are at its coordinator.
//
//	type session struct {
//		*campaign.Life[*candidate]
//		lease clientv3.LeaseID
//	}
//	type candidate struct {
//		campaign.Standing
//		s *session
//	}
//	c.campaigns = campaign.New(campaign.Options[*session]{Open: c.open, …})
//	term, err := c.campaigns.Campaign(ctx, "orders", "billing-7")
//
// # A campaign
//
//	    session over, or candidate gone: back off, start again
//	   ┌───────────────────────────────────────────────────────┐
//	   ▼                                                       │
//	session ──▶ know the key ──▶ Enrol ──▶ Await ──▶ not lost? ──▶ Term
//
// The rules:
//
//   - There is one session at a time. The first campaign opens it, and the next campaign replaces a
//     session that is over. The session beats every quarter of its timeout, and at once after
//     Hurry.
//   - A session is over once, for good, and ends all of its candidates and terms. It is over when
//     the coordinator says so, when that has not answered for a session timeout, and when the
//     Coordinator is closed.
//   - The session knows a candidate's key before the coordinator hears of it, and forgets the key
//     when the candidate leaves. What the coordinator has under other keys belongs to nobody: an
//     enrolment that arrived after its campaign had given up, or a candidate that left while the
//     coordinator was out of reach. It would hold up its election for as long as the session lives,
//     so a beat deletes it.
//   - A term begins only if its candidate is not lost. From then on each beat confirms it from the
//     start of the beat, or loses it.
//   - A term that is lost at the coordinator leaves nothing. A term that its holder has given up, or
//     that a store has superseded, keeps its place until Release, because its holder is still
//     draining.
package campaign
