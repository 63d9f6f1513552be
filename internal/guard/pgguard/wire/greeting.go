package wire

import (
	"bufio"
	"bytes"
	"io"

	"github.com/ringfence/ringfence/internal/network/tlsconfig"
)

// Greeting reads packets of a client until one starts a session or cancels a query.
type Greeting struct {
	From *bufio.Reader
	To   io.Writer

	StartTLS  func(direct bool) error // replaces From; nil if there is no certificate
	Encrypted bool                    // StartTLS sets it
	declined  map[uint32]bool         // requests for encryption
}

// NewGreeting reads from a client and answers it.
func NewGreeting(from io.Reader, to io.Writer) *Greeting {
	return &Greeting{From: bufio.NewReader(from), To: to, declined: map[uint32]bool{}}
}

// Read returns the client's request.
func (g *Greeting) Read() (*Startup, error) {
	for {
		if err := g.directTLS(); err != nil {
			return nil, err
		}
		packet, code, err := readFirstPacket(g.From)
		if err != nil {
			return nil, err
		}
		switch code {
		case SSLRequest, GSSEncRequest:
			if err := g.answer(packet, code); err != nil {
				return nil, err
			}
		case CancelRequest:
			if len(packet) < 16 {
				return nil, Violation("a cancel request without a key")
			}
			return &Startup{Packet: packet, Cancel: true}, nil
		default:
			return ParseStartup(packet, code)
		}
	}
}

// directTLS starts TLS if the client does so without asking (Postgres 17).
func (g *Greeting) directTLS() error {
	head, err := g.From.Peek(1)
	switch {
	case err != nil || head[0] != tlsconfig.Handshake:
		return nil // the next read returns the error
	case g.StartTLS == nil || g.Encrypted:
		return ErrDirectTLS
	}
	return g.StartTLS(true)
}

// answer answers a request for encryption. Each kind may be requested once, with no data behind it,
// and none inside TLS.
func (g *Greeting) answer(packet []byte, code uint32) error {
	switch {
	case g.declined[code] || len(packet) != 8 || g.Encrypted:
		return Violation("a request for encryption that is repeated or has a body")
	case g.From.Buffered() > 0: // a man in the middle could have injected these bytes
		return Violation("received unencrypted data after a request for encryption")
	case code == SSLRequest && g.StartTLS != nil:
		if _, err := g.To.Write([]byte{'S'}); err != nil {
			return err
		}
		return g.StartTLS(false)
	}
	g.declined[code] = true
	_, err := g.To.Write([]byte{'N'})
	return err
}

// Unused returns what a reader has read ahead.
func Unused(r *bufio.Reader) []byte {
	ahead, _ := r.Peek(r.Buffered())
	return bytes.Clone(ahead)
}
