package redis

import (
	"context"
	"errors"
	"fmt"

	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/refusal"
)

// errTLSRequired refuses a client that does not encrypt its connection.
var errTLSRequired = errors.New("TLS is required; nothing was executed; connect with TLS (rediss://, redis-cli --tls)")

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
	if first[0] != guard.TLSHandshake {
		c.commands.buf = first
		return nil
	}
	if err := c.client.StartTLS(ctx, t.Server.Config(), first); err != nil {
		if c.client.Draining.Err() != nil || ctx.Err() != nil {
			return errDone // the client has heard nothing but the end of the connection
		}
		return fmt.Errorf("TLS handshake with the client: %w", err)
	}
	if t.VerifyName {
		c.user = c.client.CertificateName()
	}
	return nil
}

// checkUser refuses a session whose user is not the one of its certificate.
func (c *conn) checkUser() error {
	if c.user == "" {
		return nil
	}
	answers, err := c.upstream.do(c.client, []string{"ACL", "WHOAMI"})
	if err != nil {
		return err
	}
	if answers[0] != c.user {
		return refusal.Setup(
			fmt.Sprintf("the session is one of user %q, and the client's certificate is one of %q", answers[0], c.user),
			"log in (AUTH) as the user that the certificate names, and claim then")
	}
	return nil
}

// changesUser reports whether a command would make the session one of another user.
func changesUser(args [][]byte, user string) bool {
	switch {
	case equalFold(args[0], "RESET"):
		return user != "default"
	case equalFold(args[0], "AUTH"):
		return len(args) == 2 && user != "default" || len(args) > 2 && string(args[1]) != user
	case equalFold(args[0], "HELLO"):
		for i, arg := range args[:len(args)-1] {
			if i > 0 && equalFold(arg, "AUTH") && string(args[i+1]) != user {
				return true
			}
		}
	}
	return false
}
