package guard

import (
	"context"
	"crypto/tls"

	"github.com/ringfence/ringfence/internal/network/tlsconfig"
)

// TLS says how a Protocol encrypts the connections of its clients. The zero value: not at all.
type TLS struct {
	Server *tlsconfig.Server // nil: no client can use TLS
	// Require refuses clients that do not use TLS. Those on a Unix socket need none.
	Require bool
	// VerifyName refuses a client whose role is not the common name of its certificate.
	VerifyName bool
}

// StartTLS encrypts the connection from here on. ahead has what was read of the connection and not
// used. An error may be of the client or of the connection; the connection is of no use then.
func (c *Client) StartTLS(ctx context.Context, config *tls.Config, ahead []byte) error {
	encrypted := tls.Server(tlsconfig.NewTransport(c.Conn(), ahead), config)
	if err := encrypted.HandshakeContext(ctx); err != nil {
		return err
	}
	c.Replace(encrypted)
	return nil
}

// Encrypted returns the state of the client's TLS; nil if it uses none.
func (c *Client) Encrypted() *tls.ConnectionState {
	encrypted, ok := c.Conn().(interface{ ConnectionState() tls.ConnectionState })
	if !ok {
		return nil
	}
	state := encrypted.ConnectionState()
	return &state
}

// OneUser is whom a client may be, as its certificate says: one user, or nobody if it names none.
// The zero value is everybody: there is nothing to check.
type OneUser struct {
	checked bool
	name    string
}

// Only returns a OneUser that allows this user alone; nobody if the name is empty.
func Only(name string) OneUser { return OneUser{true, name} }

// Everybody reports whether there is nothing to check.
func (u OneUser) Everybody() bool { return !u.checked }

// Nobody reports whether no user is allowed.
func (u OneUser) Nobody() bool { return u.checked && u.name == "" }

// Allows reports whether a client may be this user.
func (u OneUser) Allows(user string) bool { return !u.checked || u.name != "" && u.name == user }

// String returns the name of the one user.
func (u OneUser) String() string { return u.name }

// User returns whom a client's certificate lets it be: everybody unless VerifyName is set, and
// without TLS, which Require refuses.
func (t TLS) User(c *Client) OneUser {
	state := c.Encrypted()
	switch {
	case !t.VerifyName || state == nil:
		return OneUser{}
	case len(state.VerifiedChains) == 0:
		return Only("")
	}
	return Only(state.VerifiedChains[0][0].Subject.CommonName)
}

// Local reports whether the client came by a Unix socket.
func (c *Client) Local() bool { return c.LocalAddr().Network() == "unix" }

// Refuses reports whether a client must use TLS and does not.
func (t TLS) Refuses(c *Client) bool { return t.Require && c.Encrypted() == nil && !c.Local() }
