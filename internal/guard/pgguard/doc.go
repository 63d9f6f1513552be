// Package pgguard is the guard's side of the Postgres protocol (manual, chapter 55,
// "Frontend/Backend Protocol"). It relays a client's login, has the session admitted under the
// tokens that the client claims, and relays bytes from then on.
//
//	store, err := pgmarks.Open("postgres://guard_role@database/shop", pgmarks.Options{})
//	if err != nil {
//		return err
//	}
//	protocol := pgguard.New(pgguard.Options{
//		Store:     store,
//		Admission: &marks.Admission{Store: store, Authority: authority},
//	})
//	defer protocol.Close() // closes the store, too
//	server := guard.Server{Protocol: protocol, Listener: listener, Log: log, Metrics: metrics}
//	return server.Serve(ctx)
//
// A client claims tokens in its startup options:
//
//	psql "host=guard user=app dbname=shop options='-c fence.orders=45'"
//
// # What it guarantees
//
// Before the session is admitted, only the client's login and one statement of the guard's own
// reach the server. That statement identifies the session and the server that the client's own
// upstream connection leads to. (A connection for physical replication takes no statement and gets
// none.) Whatever else the client sends waits at the guard, and is not answered if the session is
// refused.
//
// After "ready" every byte of both sides passes unchanged, except for one message: when the backend
// reports that it was terminated (FATAL 57P01) because of a newer leader, the client gets RF001
// instead.
//
// A client without a token is refused.
//
// A shutdown of the guard ends a session once it is idle, with FATAL 57P01 from the guard: no
// transaction is open then, and every request is answered. The server has confirmed that
// (marks.Proof), and has sent nothing but the answer to the proof since the guard stopped passing
// on what it sends. The guard has the server close the connection, so that it sees all of that; if
// another guard has the backend end first, its last message shows the same. Otherwise the client
// gets 08007, which says that the outcome is unknown.
//
// # Where the login differs from Postgres
//
//   - The guard declines requests for TLS and GSSAPI encryption ('N'). It closes the connection of
//     a client that starts with TLS at once.
//   - It removes protocol options (_pq_.…) from the request, lowers a protocol version above 3.2 to
//     3.2, and reports both to the client (NegotiateProtocolVersion), as Postgres reports what it
//     does not know.
//   - It refuses options that the server would refuse (RF003), and a startup parameter that comes
//     twice (08P01).
//   - It relays logins by trust, password, md5 and SCRAM. It refuses GSSAPI, SSPI and others. A
//     message has at most 64 KiB.
//   - After the login it refuses roles whose sessions it could not end, such as superusers, and
//     databases without the schema.
//
// # Databases
//
// With Options.Another the guard serves the other databases of the server, too (package databases).
// Each has its own store and admission, and so its own marks, registry, and connections that
// listen. Which one a session belongs to is not a matter of names: Register compares the run, of
// which the database's oid is a part.
//
// # What shows of the guard in Postgres
//
// A session's address in pg_stat_activity, pg_hba.conf and the log is the guard's. The guard sends
// one statement on the client's connection, which is only a comment: /* ringfence … */. It is in
// pg_stat_activity.query until the client's first statement, and in the log if all statements are
// logged. Where track_activities is off, "select ringfence.backend_identity()" follows. Another
// comment follows before the guard ends a session that is at rest. The guard has a few connections
// of its own, with the application_name ringfence. Its tables are in the schema ringfence, which
// pg_dump dumps.
//
// # The states of a connection
//
// Next to each is the file that has it.
//
//	first packet (greeting.go)
//	    │        ──▶ SSLRequest, GSSENCRequest: 'N', then the next packet
//	    │        ──▶ CancelRequest: forwarded unchanged, then the connection is closed
//	    ▼
//	startup (startup.go, claims.go): version and options are negotiated, claims are read
//	    │                                           ──▶ none or malformed: RF002, RF003
//	    ▼
//	login (login.go): relayed message by message; the client's bytes go upstream only as answers to requests
//	    │  of the server, whose BackendKeyData names the backend
//	    │        ──▶ the server has no room, and the client leads: room is made, and once more (room.go)
//	    │                                           ──▶ refused by the server: its own error
//	    ▼
//	ReadyForQuery is held back (identify.go, admit.go): the backend is identified, the session admitted
//	    │                                           ──▶ RF001, RF004 … RF007, RF010, RF011, RF013
//	    ▼
//	ready (session.go, walk.go, progress.go): the guard relays bytes and follows message boundaries
//	    ▼
//	the server ends the session ──▶ RF001 if a newer token is the reason, else the server's own
//	    │                           error; in both cases at a message boundary
//	a newer token comes, and it seems to be at rest ──▶ nothing more of the client is passed on, a
//	                                                    comment with a random name is the proof; RF001
//
// Until it is admitted, a client holds an unadmitted slot (package guard), and from the dial of the
// upstream connection on a login slot too. Other clients can take both from it while it keeps the
// guard waiting. Only an admitted session holds an admitted slot.
package pgguard
