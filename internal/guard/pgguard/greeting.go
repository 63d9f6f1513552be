package pgguard

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"time"

	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/guard/pgguard/wire"
	"github.com/ringfence/ringfence/internal/guard/relay"
)

// greet reads the request of a client, and encrypts the connection if the client asks for that. The
// rest of what the client sends comes from the reader.
func (p *Protocol) greet(ctx context.Context, c *guard.Client) (*bufio.Reader, *startup, error) {
	g := wire.NewGreeting(c, c)
	if p.o.TLS.Server != nil {
		g.StartTLS = func(direct bool) error { return encrypt(ctx, g, p.o.TLS, c, direct) }
	}
	s, err := g.Read()
	if err != nil {
		return g.From, nil, err
	}
	return g.From, &startup{s}, nil
}

// alpn is the name of the protocol in TLS. A client that starts with TLS has to ask for it, so that
// nobody can lead a connection of another protocol here (manual, 55.2.11, "SSL Session
// Encryption").
const alpn = "postgresql"

// encrypt makes the handshake.
func encrypt(
	ctx context.Context, g *wire.Greeting, t guard.TLS, c *guard.Client, direct bool,
) error {
	if err := c.StartTLS(ctx, t.Server.Config(alpn), wire.Unused(g.From)); err != nil {
		return &handshakeError{err}
	}
	if direct && c.Encrypted().NegotiatedProtocol != alpn {
		return &handshakeError{errors.New("the client started with TLS and did not ask for the " +
			"protocol " + alpn)}
	}
	g.From, g.Encrypted = bufio.NewReader(c), true
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
	server, _, err := p.o.Store.Dial(ctx)
	if err != nil {
		return err
	}
	defer server.Close()
	return sendCancel(ctx, server, s.Packet)
}

// sendCancel sends a cancel request on a connection of its own, and waits until the server has
// acted: it closes the connection then.
func sendCancel(ctx context.Context, server net.Conn, packet []byte) error {
	unhook := context.AfterFunc(ctx, func() { _ = server.SetDeadline(relay.Past) })
	defer unhook()
	if _, err := server.Write(packet); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, server)
	return err
}
