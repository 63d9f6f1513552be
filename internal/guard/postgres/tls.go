package postgres

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"

	"github.com/ringfence/ringfence/internal/guard"
)

// encryption returns the state of TLS on a connection to the server; nil if there is none.
func encryption(server net.Conn) *tls.ConnectionState {
	encrypted, ok := server.(*tls.Conn)
	if !ok {
		return nil
	}
	state := encrypted.ConnectionState()
	return &state
}

// checkTLS refuses a client that has to use TLS and does not, or whose certificate names another
// role.
func (p *Protocol) checkTLS(c *guard.Client, s *startup) error {
	name := c.CertificateName()
	switch {
	case p.o.TLS.Refuses(c):
		return &loginError{
			code: invalidAuthorization, what: "this guard requires TLS", why: "the connection is not encrypted",
			hint: "set sslmode=require, or a stricter one, in the client",
		}
	case p.o.TLS.VerifyName && c.Encrypted() != nil && name != s.get("user"):
		return &loginError{
			code: invalidAuthorization,
			what: fmt.Sprintf("the certificate of the client is not one of role %q", s.get("user")),
			why:  fmt.Sprintf("its common name is %q", name),
			hint: "connect as the role that the certificate names, or with another certificate",
		}
	}
	return nil
}

// failHandshake returns the error for the log. A client that left, or was too slow, is none.
func (p *Protocol) failHandshake(ctx context.Context, err *handshakeError) error {
	if why := endedByGuard(ctx, err); why != nil || ctx.Err() != nil {
		return why
	}
	return fmt.Errorf("TLS handshake with the client: %w", err)
}
