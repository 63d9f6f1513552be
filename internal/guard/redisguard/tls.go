package redisguard

import (
	"context"
	"errors"
	"fmt"

	"github.com/ringfence/ringfence/internal/network/tlsconfig"
	"github.com/ringfence/ringfence/internal/refusal"
)

// errTLSRequired refuses a client that does not encrypt its connection.
var errTLSRequired = errors.New("TLS is required; nothing was executed; connect with TLS " +
	"(rediss://, redis-cli --tls)")

// greet encrypts the connection of a client that starts with TLS. No command of Redis begins with
// that byte.
func (c *conn) greet(ctx context.Context) error {
	t := c.p.o.TLS
	if t.Server == nil {
		return nil
	}
	first := make([]byte, 1)
	if _, err := c.client.Read(first); err != nil {
		return c.readFailed(ctx, err)
	}
	if first[0] != tlsconfig.Handshake {
		c.commands.buf = first
		return nil
	}
	if err := c.client.StartTLS(ctx, t.Server.Config(), first); err != nil {
		if c.client.Draining.Err() != nil || ctx.Err() != nil {
			return errDone // the client has heard nothing but the end of the connection
		}
		return fmt.Errorf("TLS handshake with the client: %w", err)
	}
	c.only = t.User(c.client)
	return nil
}

// checkTLS refuses a client that has to use TLS and does not, or whose certificate names nobody.
func (c *conn) checkTLS() error {
	switch {
	case c.p.o.TLS.Refuses(c.client):
		return errTLSRequired
	case c.only.Nobody():
		return refusal.NoCommonName()
	}
	return nil
}
