package marks

import "context"

// Client is who opens a session, for logs and lists. The client chooses User and Application
// itself; User is what it says until the database has accepted its login.
type Client struct {
	Address     string // host and port, or [local] for a Unix socket
	User        string // the role in Postgres, the user in Redis; empty if it is not known
	Application string // application_name in Postgres, the client name in Redis
}

type clientKey struct{}

// WithClient returns a context for what is done on behalf of a client. The events that come of it
// name the client.
func WithClient(ctx context.Context, c Client) context.Context {
	return context.WithValue(ctx, clientKey{}, &c)
}

// ClientOf returns the client of a context, or an empty one.
func ClientOf(ctx context.Context) Client { return *clientOf(ctx) }

// clientOf returns the client of a context, or an empty one.
func clientOf(ctx context.Context) *Client {
	if c, ok := ctx.Value(clientKey{}).(*Client); ok {
		return c
	}
	return &Client{}
}
