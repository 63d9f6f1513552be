package guard

import "context"

// Protocol speaks the wire protocol of one database.
type Protocol interface {
	// Name returns the protocol in one word, for logs and metrics.
	Name() string

	// Serve talks to one client until either side is gone: login, admission, relay. It must not let
	// anything but the client's login reach the database before the session is admitted. It tells the
	// client's seat when it waits for the client, and has the seat admit the session before the client
	// may write. When the guard shuts down, Serve ends the connection, with a reason, as soon as no
	// transaction is open; when ctx ends, with Evicted or otherwise, it returns at once. The caller
	// closes the connection afterwards. The error is for the log, an Ended is counted; a client that
	// leaves is no error.
	Serve(ctx context.Context, c *Client) error

	// Refuse tells a client that has not said anything yet why it cannot be served, in the protocol's
	// own form.
	Refuse(c *Client, why string)

	// Ready returns nil if sessions can be admitted now: the marks can be read and nothing forbids
	// serving.
	Ready(ctx context.Context) error

	// Close ends the control connections and waits for background work.
	Close()
}

// Bounded is a Protocol whose server takes only so many connections.
type Bounded interface {
	// Bound returns how many connections of clients the server takes, and the setting that says so. It
	// may change while the guard serves. It is 0 while the server has not said it.
	Bound(ctx context.Context) (connections int, setting string, err error)
}

// Several is a Protocol whose server has several databases. Ready returns nil while one of them can
// admit: the outage of a database is no reason to send clients of the others elsewhere.
type Several interface {
	// Databases probes the databases that are served now. The error is nil for those that can admit.
	Databases(ctx context.Context) map[string]error
}

// Keeper is a Protocol of a guard that no client may come through. It opens what clients would.
type Keeper interface {
	// Keep keeps the databases that the settings name open until ctx ends. It reports each time that
	// one cannot be opened, and tries again.
	Keep(ctx context.Context, failed func(database string, err error))
}
