// Package postgres holds elections in a Postgres database, for people who run no other coordinator:
// it is a elector.Coordinator on any Postgres from version 13.
//
//	coordinator, err := postgres.Open(ctx, "postgres://app@database/shop", postgres.Options{})
//	if err != nil {
//		return err
//	}
//	defer coordinator.Close()
//	lead := fence.Lead{
//		Elector: coordinator, Resource: "orders", Holder: "billing-7", Stores: stores,
//	}
//	return lead.Run(ctx, work)
//
// Open installs the schema ringfence if the role may create it. Otherwise an operator
// runs Install for the roles that take part, or gives the output of InstallSQL to psql. The roles
// need no privilege on the tables; all access goes through functions. Anybody who may call these
// can depose a leader or hold an election. Fencing works against processes that err, not against
// those.
//
// A Coordinator uses up to two connections for heartbeats, one to listen, one to send notices, and
// up to eight for calls. Its enrolments in one election go one after another, on one of the eight.
// Behind a pooler such as PgBouncer, add listen=off to the options of the URL. The Coordinator then
// keeps no state in a connection and works in transaction mode.
//
// # What it guarantees, and what not
//
//   - Tokens of a resource rise as long as the issuer stays the same, also across a crash and
//     across the promotion of a standby that has not received the last transactions.
//   - At any moment at most one candidate of a resource leads. A term that was passed over never
//     leads again, whatever is delayed and whatever the clock of the server does.
//   - Leaders, Candidates and every answer to a campaign are reads on the primary that begin after
//     the call. Leaders is one round trip for any number of resources, and writes nothing while no
//     session expires.
//   - A term is lost at the start of its last heartbeat plus the session timeout, on the clock of
//     its process. The server counts the same time from a later moment, on its own clock.
//
// In these cases two leaders may work at once. The marks on the stores fence the older one:
//
//   - Clocks run at different rates, or the clock of the server steps forward. A new leader may be
//     elected before the old one has noticed.
//   - A standby was promoted. A session of before does not count there, so a new leader is elected
//     at once, while the older one believes in its last heartbeat for the rest of the session
//     timeout.
//   - An old primary still runs after a standby was promoted. It names and confirms its own
//     leaders, with lower tokens. Let the failover stop the old primary first, as Patroni does.
//
// No token is given out twice, also where the data go back. In these cases a leader may have a
// lower token than one whose term was lost with the data. A store outside of this database that has
// seen the higher one refuses everybody until an operator adopts the resource (ErrOtherIssuer):
//
//   - A base backup or disk snapshot is started without recovery from an archive. It has the same
//     timeline, and a leader that it knows leads until its session ends. The next token is above
//     those of the original; if one backup takes the place twice, either may have the higher ones.
//   - A primary comes back on its older timeline, after a standby that was promoted is lost.
//   - The memory of a running machine is restored. Nothing shows that, so its count goes on, and a
//     token may be given twice: call RenewIssuer.
//
// # Layout
//
//	issuer      one row; the random part of the issuer
//	lease       a process: expires_at, ttl, era
//	election    a resource and its last token; an enrolment locks the row
//	candidate   a resource, token, lease, holder, and whether it is ready
//
// The candidate with the lowest token leads. All candidates of a Coordinator share one session, so
// a process that leads a thousand resources sends one heartbeat. Advisory locks would be no lease:
// a process that is paused keeps its connection, and a pooler hands it on.
//
// A token is the time of its enrolment, in microseconds since 1970, by the server's clock. So it
// is higher than those before it, also than those that were lost when another server or older
// data took over. If the clock is behind the last token of the election, the next one is above
// that, at random: then tokens rise only above those that these data know, and other stores that
// know a later one wait for an operator. No token is given out twice.
//
// # A campaign
//
//	            session over, own row deleted: back off, start again
//	     ┌───────────────────────────────────────────────────────────┐
//	     ▼                                                           │
//	open or share a session ──▶ enrol ──▶ look ──▶ wait ──▶ look again
//	                             │  ▲                           │
//	                             └──┘ reply lost: the           ▼ nobody ahead
//	                                  id finds the row         Term
//
// A look says how many candidates are ahead. It covers all candidates of the session that are due,
// in one call. Every heartbeat looks at all of them, too.
//
// A deletion, also by hand, sends a notice to the session of the new leader alone, so one death in
// an election of a thousand wakes one candidate. The next in line also looks when the leader's
// session may have expired. Where notices do not arrive it looks at every tick: a tenth of the
// session timeout, between 50 and 500 ms.
//
// A candidate that has to wait sends no notice. At each notice Postgres wakes every connection that
// listens in the database, whatever it listens to: a notice at each of a thousand enrolments in a
// hundred processes kept the server busy until sessions expired. Watch finds such a candidate when
// it looks again: after a quarter of the session timeout, 2 s at most, or at every tick.
//
// A heartbeat deletes rows of its session that no campaign knows, such as an enrolment that arrived
// after its campaign had given up.
//
// # Why there is one leader
//
//  1. Order. An enrolment takes its number while it holds the election's row locked until it has
//     committed. So no candidate appears ahead of one that is already visible. A candidate with
//     nobody ahead of it leads until its row is deleted.
//  2. Durability. Every call commits with synchronous_commit on at least, whatever the defaults of
//     the role are, and so does a deletion by hand. A client believes an answer only after the
//     commit. A crash therefore takes back no answer.
//  3. Expiry is sticky. A session is judged by the server's clock alone. A call that finds one
//     expired deletes it, with its candidates, and commits that before it says that the next one
//     leads. No call skips a candidate. A heartbeat renews only a row that exists and has not
//     expired, and the deletion waits for a heartbeat that came first and judges the renewed row.
//     So neither a late heartbeat nor a clock that steps back revives a term that was passed over.
//     After a step back, whoever finds a session that would last for longer than its time to live
//     makes that as long as if it were renewed now. Its last heartbeat was before that, so its
//     client has lost its terms by then.
//  4. Timelines. A session counts only on the timeline on which it was opened, and every promotion
//     begins a higher one. So a promotion ends all sessions at once, and everybody enrols again
//     with a higher token. It does not matter which enrolments and deletions the standby had not
//     received. The timeline is that of the server's write-ahead log, so it is right as soon as the
//     server takes writes.
//  5. The issuer is postgres:<system identifier>:<database oid>:<random>. A copy of the database or
//     a new schema is another issuer. So is a schema that pg_restore has brought back, because the
//     row has another xmin than the one that our function noted in it. So is one that pg_upgrade
//     has moved, because the row names the cluster. Sessions end then, and tokens may begin below
//     the last ones, on a lower timeline: numbers of two issuers are not compared.
package postgres
