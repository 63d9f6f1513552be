package relay

import (
	"net"
	"sync/atomic"
)

// BelowTLS returns a connection to use below TLS with a client. ahead has bytes that were read of
// conn and not used.
//
// A relay is patient with a slow client: it writes with a deadline, and goes on when that has passed.
// TLS cannot go on after that, so the patience is here, below it.
func BelowTLS(conn net.Conn, ahead []byte) net.Conn { return &belowTLS{Conn: conn, ahead: ahead} }

type belowTLS struct {
	net.Conn
	ahead   []byte
	patient atomic.Pointer[patient] // nil if there is no relay
}

// below returns what a client's connection has below TLS; nil if that is nothing of ours.
func below(client net.Conn) *belowTLS {
	encrypted, ok := client.(interface{ NetConn() net.Conn })
	if !ok {
		return nil
	}
	b, _ := encrypted.NetConn().(*belowTLS)
	return b
}

func (b *belowTLS) Read(into []byte) (int, error) {
	if len(b.ahead) > 0 {
		n := copy(into, b.ahead)
		b.ahead = b.ahead[n:]
		return n, nil
	}
	return b.Conn.Read(into)
}

func (b *belowTLS) Write(what []byte) (int, error) {
	if p := b.patient.Load(); p != nil {
		return p.Write(what)
	}
	return b.Conn.Write(what)
}

// CloseWrite half-closes the connection.
func (b *belowTLS) CloseWrite() error {
	CloseWrite(b.Conn)
	return nil
}
