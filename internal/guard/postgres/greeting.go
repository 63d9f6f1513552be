package postgres

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"time"

	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/guard/postgres/wire"
	"github.com/ringfence/ringfence/internal/guard/relay"
)

// greeting reads packets of a client until one starts a session or cancels a query.
type greeting struct {
	from *bufio.Reader
	to   io.Writer

	startTLS  func(direct bool) error // replaces from; nil if the guard has no certificate
	encrypted bool
	declined  map[uint32]bool // requests for encryption
}

func newGreeting(from io.Reader, to io.Writer) *greeting {
	return &greeting{from: bufio.NewReader(from), to: to, declined: map[uint32]bool{}}
}

// greet reads the request of a client, and encrypts the connection if the client asks for that. The
// rest of what the client sends comes from the reader.
func (p *Protocol) greet(ctx context.Context, c *guard.Client) (*bufio.Reader, *startup, error) {
	g := newGreeting(c, c)
	if p.o.TLS.Server != nil {
		g.startTLS = func(direct bool) error { return g.encrypt(ctx, p.o.TLS, c, direct) }
	}
	s, err := g.read()
	return g.from, s, err
}

func (g *greeting) read() (*startup, error) {
	for {
		if err := g.directTLS(); err != nil {
			return nil, err
		}
		packet, code, err := readFirstPacket(g.from)
		if err != nil {
			return nil, err
		}
		switch code {
		case sslRequest, gssencRequest:
			if err := g.answer(packet, code); err != nil {
				return nil, err
			}
		case cancelRequest:
			if len(packet) < 16 {
				return nil, wire.Violation("a cancel request without a key")
			}
			return &startup{packet: packet, cancel: true}, nil
		default:
			return parseStartup(packet, code)
		}
	}
}

// directTLS starts TLS if the client does so without asking (Postgres 17).
func (g *greeting) directTLS() error {
	head, err := g.from.Peek(1)
	switch {
	case err != nil || head[0] != guard.TLSHandshake:
		return nil // the next read returns the error
	case g.startTLS == nil || g.encrypted:
		return errDirectTLS
	}
	return g.startTLS(true)
}

// answer answers a request for encryption. Each kind may be requested once, with no data behind it,
// and none inside TLS.
func (g *greeting) answer(packet []byte, code uint32) error {
	switch {
	case g.declined[code] || len(packet) != 8 || g.encrypted:
		return wire.Violation("a request for encryption that is repeated or has a body")
	case g.from.Buffered() > 0: // a man in the middle could have injected these bytes
		return wire.Violation("received unencrypted data after a request for encryption")
	case code == sslRequest && g.startTLS != nil:
		if _, err := g.to.Write([]byte{'S'}); err != nil {
			return err
		}
		return g.startTLS(false)
	}
	g.declined[code] = true
	_, err := g.to.Write([]byte{'N'})
	return err
}

// alpn is the name of the protocol in TLS. A client that starts with TLS has to ask for it, so that
// nobody can lead a connection of another protocol here (manual, 55.2.11, "SSL Session Encryption").
const alpn = "postgresql"

// encrypt makes the handshake.
func (g *greeting) encrypt(ctx context.Context, t guard.TLS, c *guard.Client, direct bool) error {
	if err := c.StartTLS(ctx, t.Server.Config(alpn), unused(g.from)); err != nil {
		return &handshakeError{err}
	}
	if direct && c.Encrypted().NegotiatedProtocol != alpn {
		return &handshakeError{errors.New("the client started with TLS and did not ask for the protocol " + alpn)}
	}
	g.from, g.encrypted = bufio.NewReader(c), true
	return nil
}

// handshakeError is a TLS handshake that failed. The client has got an alert, and can read nothing
// else.
type handshakeError struct{ error }

func (e *handshakeError) Unwrap() error { return e.error }

// sameCertificate reports whether the client has seen the certificate that the server has shown to
// the guard.
func sameCertificate(t guard.TLS, client, server *tls.ConnectionState) bool {
	return client != nil && server != nil &&
		t.Server.Certificate().Equal(server.PeerCertificates[0])
}

// cancelTime bounds the forwarding of one cancel request.
const cancelTime = 5 * time.Second

// forwardCancel forwards a cancel request unchanged. Its key is the backend's own, so the guard
// need not remember it, any guard of the same server can forward it, and it means nothing once the
// backend has ended. The protocol answers neither side, whatever the outcome.
func (p *Protocol) forwardCancel(ctx context.Context, c *guard.Client, s *startup) error {
	ctx, cancel := context.WithTimeout(ctx, cancelTime)
	defer cancel()
	if err := c.Seat.Login(ctx); err != nil {
		return nil
	}
	server, err := p.o.Store.Dial(ctx)
	if err != nil {
		return err
	}
	defer server.Close()
	return sendCancel(ctx, server, s.packet)
}

// sendCancel sends a cancel request on a connection of its own, and waits until the server has acted: it closes
// the connection then.
func sendCancel(ctx context.Context, server net.Conn, packet []byte) error {
	unhook := context.AfterFunc(ctx, func() { _ = server.SetDeadline(relay.Past) })
	defer unhook()
	if _, err := server.Write(packet); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, server)
	return err
}
