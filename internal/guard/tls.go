package guard

import (
	"context"
	"crypto/tls"

	"github.com/ringfence/ringfence/internal/tlsconfig"
)

// TLS says how a Protocol encrypts the connections of its clients. The zero value: not at all.
type TLS struct {
	Server *tlsconfig.Server // nil: no client can use TLS
	// Require refuses clients that do not use TLS. Those on a Unix socket need none.
	Require bool
	// VerifyName refuses a client whose role is not the common name of its certificate.
	VerifyName bool
}

// TLSHandshake is the first byte of a client that starts with TLS.
const TLSHandshake = 0x16

// StartTLS encrypts the connection from here on. ahead has what was read of the connection and not
// used. An error may be of the client or of the connection; the connection is of no use then.
func (c *Client) StartTLS(ctx context.Context, config *tls.Config, ahead []byte) error {
	encrypted := tls.Server(tlsconfig.NewBelow(c.Conn(), ahead), config)
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

// CertificateName returns the common name of the client's certificate, which was verified; "" if the
// client has none.
func (c *Client) CertificateName() string {
	state := c.Encrypted()
	if state == nil || len(state.VerifiedChains) == 0 {
		return ""
	}
	return state.VerifiedChains[0][0].Subject.CommonName
}

// Local reports whether the client came by a Unix socket.
func (c *Client) Local() bool { return c.LocalAddr().Network() == "unix" }

// Refuses reports whether a client must use TLS and does not.
func (t TLS) Refuses(c *Client) bool { return t.Require && c.Encrypted() == nil && !c.Local() }
