// Package guard is the proxy that people put in front of a database. It accepts, limits and drains
// connections, and knows no protocol. pgguard and redisguard each speak one. Package marks
// decides who is admitted, and package relay passes the bytes of those that are.
//
// A guard keeps no authority in memory. It may be killed, paused, restarted or run ten times over:
// the marks and the sessions are in the database, and a guard reads there what it does not
// remember.
//
// # Who can keep whom out
//
// A connection needs a slot (Seat), of which there are three kinds. A client that is not admitted
// cannot take a slot of one that is. So no crowd of strangers keeps a leader's sessions out or ends
// one of them.
//
//	slot        limit                  who may take one               who may lose it to others
//	unadmitted  GUARD_MAX_UNADMITTED   anybody, from accept on        clients that keep the guard waiting
//	login       GUARD_MAX_LOGINS       clients that log in            the same
//	admitted    GUARD_MAX_CONNECTIONS  whom the store has admitted    nobody
//
// The first two kinds are shared out by address. The address with the fewest slots comes first;
// within one address, the connection that has waited longest, or the latest if an eviction has made
// the room. An eviction hits the address with the most slots, and there the client that has kept
// the guard waiting longest, provided that it has done so for the grace (1 s). Four times as many
// connections as there are slots may wait for one. Beyond that, the address with the longest queue
// loses its first. Clients behind one balancer have one address, and so have all clients on a Unix
// socket. An IPv6 network of 64 bits counts as one address.
//
// Admitted slots are not shared out by address. A newcomer waits for one as long as an admission
// may take. If older sessions of its resource hold them all, its own admission has ended these, so
// slots come free. If sessions of its own token or of other resources hold them all, it is refused.
//
// A server also takes only so many connections. Where the Protocol knows how many (Bounded), the
// limits are lowered to that. A login that the server refuses although the coordinator confirms its
// claims starves (Seat.Starve): until it has its connection, others get no login slot, and those
// that keep the guard waiting are evicted although there are slots left.
//
// ringfence_connections_ended_total counts every refusal for lack of room by protocol and reason.
//
// # Another protocol
//
// guard/X has two types that matter. Settings implements Upstream, which is all that cmd/guard
// knows of a protocol: an entry in cmd/guard/protocols.go.
// Protocol speaks with one client:
//
//	func (p *Protocol) Serve(ctx context.Context, c *guard.Client) error {
//		c.Seat.Waiting()                       // for the client; Working while it is the server's turn
//		…                                      // its greeting, TLS (Common.TLS), its claims (internal/refusal)
//		if err := p.admission.Precheck(ctx, claims); err != nil { … }
//		if err := c.Seat.Login(ctx); err != nil { … }
//		…                                      // connect to the server; pass on the login, and nothing else
//		…                                      // ask the server what it calls the session
//		defer p.admission.Release(ctx, session, claims) // once the server's connection is closed
//		if err := p.admission.Admit(ctx, session, claims); err != nil { … }
//		if err := c.Seat.Admit(ctx); err != nil { … }
//		…                                      // only now does the client hear that it may send
//		server = c.Adopt(server)
//		r := relay.Start(ctx, relay.Leg{Conn: c.Conn()}, relay.Leg{Conn: server}, up, down, alive)
//		end := r.Wait()
//		…                                      // p.admission.Ended says why the server has ended the session
//	}
//
// An error goes to the client in the protocol's own form, by Client.LastWord: internal/refusal has
// the texts and codes. up and down are a relay.Walker each. They follow the messages, so that a
// last word comes where the client expects an answer, and stop what would change the session's
// claims (invariant 9). Around it stand marks.WithClient, marks.WithSteps, Admission.Report and
// Finish for the audit, and guard.Limit, guard.OnOwnStack, guard.WhenIdle and Client.WhenDraining.
// Admission.Relaying and LetGo are optional (invariant 15): without them Revoke ends every older
// session, as in Redis. guardtest.Histories checks with real servers that writes never go down in
// token.
//
// A protocol of commands without a login is like redisguard: protocol.go, handshake.go, claim.go,
// up.go, down.go. One with a login, or with SQL, is like pgguard: protocol.go, startup.go,
// login.go, identify.go, admit.go, session.go, walk.go, progress.go, tls.go. Where the server
// speaks first, the guard sends a greeting of its own: who has no slot must cost the server no
// connection. If a login answers random bytes of the server's greeting, the client has to answer a
// second time, over the server's.
//
// # Where else a database is named
//
//   - internal/marks/X and store/X; see package marks
//   - internal/refusal: X.go for what is of one protocol, the form in which a claim travels and the
//     texts; a line of doc.go. One with SQLSTATEs takes those of table.go
//   - cmd/guard/protocols.go: an entry with its words, and two fields with their text
//   - cmd/leader/internal/stores: X.go, an entry of known, and a test in foreign_test.go
//   - what each may import, in internal/test/imports
//   - a server for tests: internal/test/servers/X.go, serverstest/X.go, scripts/deps.sh
//   - packaging: ringfence-guard-X.socket, and two lines in guard.env
//   - make tidy, since lab and bench start guards; no two packages have one name
//   - ARCHITECTURE.md: Packages and Dependencies; docs/X.md, linked in README.md; its column or row
//     in docs/operating.md (codes, limits, versions), tls.md (options of the URL), threats.md,
//     installing.md (what uninstall removes) and upgrading.md (what clients hear); CHANGELOG.md
//
// Listeners, reloads, status, install, metrics, the page and the settings of the leader follow from
// the two tables. Settings.Open refuses what its protocol does not have. Not of every database:
// seals (protect, check), LEADER_CARRY (cmd/leader/internal/carrier), LEADER_EXPORT (environ),
// steps and journals of tasks.
package guard
