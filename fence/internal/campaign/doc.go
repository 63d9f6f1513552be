// Package campaign is what all coordinators share. Read it first to add one. A coordinator is one
// package, fence/X, and implements documents.Coordinator: an elector, an observer, and a store of
// documents. It supplies what a session, a candidate and a document are there. From here it gets
//
//   - the campaigns of a process, over one session (Campaigns), so that a process that leads a
//     thousand resources renews one; what a late or lost reply leaves is swept
//   - its own life, from Open to Close (Frame), and requests that are repeated until there is an
//     answer (Ask)
//   - watches that survive disconnections and tell only what is new (Frame.Repeat, OnChange,
//     OnOther)
//   - the claims that were found to lead, for changes under a term (Known), and the check of a
//     change
//   - the form of the URL (Form)
//
// and from elsewhere, for nothing: terms (package fence), the texts of refusals (internal/refusal),
// groups, jobs, checkpoints (checkpoint/coordinator), the agent, the guard's authority and its
// page, the help texts of both programs.
//
// # Where else it is named
//
//   - internal/coordinators: an entry of Known, and its floor, and who may import its driver, in
//     internal/test/imports
//   - a server for tests: internal/test/servers/X.go, serverstest/X.go, scripts/deps.sh. One that
//     Debian and Homebrew do not have needs a step of its own there
//   - internal/test/elections: an entry of Coordinators, and X.go with the fixtures. The tests of
//     both programs then run on it, so they need the server: elections, tasks, outages, and backups
//     if a restore gives out numbers a second time
//   - ARCHITECTURE.md: its line under Packages, its driver under Dependencies
//   - docs/coordinators.md, which alone lists coordinators, and CHANGELOG.md
//   - with a driver that is a module: make tidy, which also changes lab and bench, since both open
//     every coordinator
//
// Its own tests are in its folder: fencetest.Run and RunFlaws, documentstest.Run and RunFlaws,
// jobstest.Run, journaltest.Run and RunLossy. fence/etcd/contract_test.go and documents_test.go are
// examples of the fixtures.
//
// Everything else that names coordinators names examples. make bench, the lab and compose.yaml
// choose among some of them; a new one may follow: lab/scenario/scenario.go, lab/local and
// lab/containers, bench/election/coordinator.go, bench/jobs/servers.go.
//
// # What it has to offer
//
//	tokens        a number that grows with each candidate, also after a candidate has gone: a revision or the like
//	reads         linearizable ones, with which Await, Leaders and Get see every change that was answered
//	changes       transactions that compare candidates, issuer and versions: documents.MaxWrites (100) writes,
//	              each of which compares a version, and the terms of the change: one in jobs and checkpoints.
//	              What takes fewer operations, as Consul's 64, needs a lower MaxWrites for all coordinators;
//	              jobs make smaller batches then, and work at 28. Documents of 500,000 bytes at least
//	sessions      that end within about a session timeout. There is no smallest one: if the coordinator grants
//	              no less than some seconds (Consul: 10), NewLife gets what it has granted, and so does the
//	              SessionTimeout of its fixtures. Tests of both programs ask for 1 s to 10 s where they wait
//	              for an expiry, and have two minutes for it
//	renewals      a renewal counts only once a linearizable read after it proves it. A deposed leader of the
//	              coordinator itself may still answer one (fence/etcd/doc.go). If its answers have no number of
//	              its own leadership, a renewal is a write that is committed
//
// documentstest.Fixture.Limit may be lower; docs/coordinators.md and docs/jobs.md then say so.
//
// # A skeleton
//
//	type Coordinator struct {
//		frame     *campaign.Frame
//		campaigns *campaign.Campaigns[*session, *candidate]
//		…
//	}
//
//	var form = campaign.Form{…}                      // schemes, what is allowed in the URL
//
//	func Open(ctx context.Context, url string, o Options) (*Coordinator, error) {
//		a, err := form.Parse(url)
//		…
//		c := &Coordinator{frame: campaign.NewFrame(campaign.Settings{
//			Kind: "Consul", Where: strings.Join(a.Hosts, ","), Timeout: o.SessionTimeout, Logger: o.Logger,
//			Refused: refused, // such as wrong credentials
//		})}
//		c.campaigns = campaign.New(c.frame, c.openSession)
//		…                                        // connect; Issuer makes the identity if it is missing
//	}
//
//	func (c *Coordinator) Close() error { c.frame.End(); c.frame.Wait(); … }
//
//	type session struct {                            // Session
//		*campaign.Life[*candidate]
//		c  *Coordinator
//		id string
//	}
//
//	func (c *Coordinator) openSession(ctx context.Context) (*session, error) {
//		return campaign.Ask(ctx, c.frame, "open a session", func(ctx context.Context) (*session, error) {
//			start := time.Now()
//			…
//			return &session{Life: campaign.NewLife[*candidate](granted, start), c: c, id: id}, err
//		})
//	}
//
//	func (s *session) Candidate(r fence.Resource, holder string) *candidate { … } // with a random key
//	func (s *session) Beat(start time.Time) error {
//		…                                        // renew; read which candidates of s.Enrolled exist
//		s.Confirm(start)
//		…                                        // e.Confirm(start) or e.Lose(fence.ErrDeposed) for each
//		…                                        // delete what the session has and s.Knows does not
//	}
//	func (s *session) Close() { … }                  // end it at the coordinator
//
//	type candidate struct {                          // Candidate
//		campaign.Standing
//		s *session
//	}
//
//	func (e *candidate) Enrol(ctx context.Context) (fence.Token, error) { … } // conditional on the key
//	func (e *candidate) Await(ctx context.Context) (fence.Issuer, time.Time, error) {
//		…                                        // until nobody is ahead, by a linearizable read
//		…                                        // c.known.Won: changes under this claim look it up no more
//		renewed, err := e.s.Renewed(ctx)
//		return issuer, renewed, err
//	}
//	func (e *candidate) Watch(ctx context.Context)             { … } // a deletion, at once
//	func (e *candidate) Acknowledge(ctx context.Context) error { … }
//	func (e *candidate) Release(ctx context.Context) error     { defer e.Leave(); … }
//	func (e *candidate) Leave()                                { e.s.Leave(e.Key) }
//
// The other methods of a Coordinator read: Issuer and Leaders in one linearizable round trip,
// Candidates in order of token, Watch with Frame.Repeat. Depose deletes a candidate, and
// RenewIssuer replaces the issuer. Documents returns the documents, whose Names and WatchNames list
// a folder. A change of documents is one transaction that compares the candidates of its claims,
// their issuer and the versions; it is sent once. An answer that was lost is fence.ErrUnknown, and
// ErrNotDone only what certainly was not done. When a comparison fails, Known.Forget, and look for
// the reason: refusal.OtherIssuer, NotFirst, Gone (fence/etcd/leading.go). fence/etcd is the
// shortest example.
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
//     BeatNow.
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
//   - A term that is lost at the coordinator leaves nothing. A term that its holder has given up,
//     or that a store has superseded, keeps its place until Release, because its holder is still
//     draining.
package campaign
