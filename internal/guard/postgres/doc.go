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
// Until it is admitted a client has a slot of the unadmitted (package guard), and from the dial on one of the logins, too.
// It loses them to others when it keeps the guard waiting. Only an admitted session takes one of the admitted.
package postgres
