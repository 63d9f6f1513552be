package postgres

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"

	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/refusal"
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

// checkTLS refuses a client that has to use TLS and does not, or whose certificate does not name
// its role.
func (p *Protocol) checkTLS(c *guard.Client, s *startup) error {
	if p.o.TLS.Refuses(c) {
		return &loginError{
			code: invalidAuthorization, what: "this guard requires TLS", why: "the connection is not encrypted",
			hint: "set sslmode=require, or a stricter one, in the client",
		}
	}
	return checkRole(p.o.TLS.User(c), s.get("user"))
}

// checkRole refuses a role that a client may not log in as. A name that is too long may become
// another role's, because the server cuts it off.
func checkRole(only guard.OneUser, role string) error {
	refused := &loginError{
		code: invalidAuthorization,
		what: fmt.Sprintf("the certificate of the client is not one of role %q", role),
		why:  fmt.Sprintf("its common name is %q", only),
		hint: "connect as the role that the certificate names, or with another certificate",
	}
	switch {
	case only.Everybody():
		return nil
	case only.Nobody():
		r := refusal.NoCommonName()
		return &loginError{invalidAuthorization, r.Message, r.Detail, r.Hint}
	case !only.Allows(role):
		return refused
	case len(role) > nameMost:
		refused.why = fmt.Sprintf("the server would cut this name off after %d bytes", nameMost)
		return refused
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
