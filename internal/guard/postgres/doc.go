// Package postgres is the guard's side of the Postgres protocol (manual, chapter 55, "Frontend/Backend Protocol").
//
// # The life of a connection
//
//	first packet ──▶ SSLRequest, GSSENCRequest: 'N', then the next packet
//	    │        ──▶ CancelRequest: passed on with its key, and closed
//	    ▼
//	startup: version and options negotiated, claims read from options ──▶ none or malformed: RF002, RF003
//	    ▼
//	login: relayed untouched; of the client's bytes only the answers to the server's requests go upstream
//	    │  BackendKeyData names the backend                           ──▶ refused by the server: its own error
//	    ▼
//	ReadyForQuery is held back: identify the backend, admit the session ──▶ RF001, RF004 … RF007
//	    ▼
//	ready: ReadyForQuery goes out; from here bytes are relayed, and only message headers are looked at
//	    ▼
//	the server ends the session ──▶ RF001 at a message boundary if a newer token did it, else what the server said
//
// Whatever the client sends early stays in its reader until the session is admitted. Before that the guard runs one
// statement of its own on the client's connection: it asks which session of which server it leads to.
//
// Until it is admitted a client has a slot of the unadmitted (package guard), and from the dial on one of the logins,
// too. It loses them to others when it keeps the guard waiting. Only an admitted session takes one of the admitted.
//
// # Where the wire differs from Postgres
//
// From "ready" on every byte of both sides passes as it is, but for one message: where the backend says that it was
// told to end (FATAL 57P01) and a newer leader is the reason, the client gets RF001 in its place. Before:
//
//   - Requests for TLS and GSSAPI encryption are declined ('N'). A client that starts with TLS at once is closed.
//   - Protocol versions above 3.2 and protocol options (_pq_.…) are taken out of the request, and the client is told so
//     (NegotiateProtocolVersion), as Postgres tells what it does not know.
//   - The guard refuses options that the server would refuse (RF003), and a startup parameter that is given twice (08P01).
//   - Logins by trust, password, md5 and SCRAM are relayed. GSSAPI, SSPI and others are refused. A message has at most 64 KiB.
//   - Roles that the guard could not end, such as superusers, are refused after their login, and so is another database than
//     the guard's own.
//   - What a client sends before it is ready waits at the guard, and is not answered if the session is refused.
//
// # What shows of the guard in Postgres
//
// A session's address in pg_stat_activity, pg_hba.conf and the log is the guard's. Before it is ready it runs one
// statement of the guard's, "select ringfence.leg()": it is in pg_stat_activity.query until the client's first one, in
// pg_stat_statements, in the log where all statements are logged, and is one transaction in pg_stat_database. The guard
// has some connections of its own, with the application_name ringfence. Its tables are in the schema ringfence, and
// pg_dump dumps them.
package postgres
