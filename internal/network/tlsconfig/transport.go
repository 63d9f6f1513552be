package tlsconfig

import (
	"net"
	"sync/atomic"
	"time"
)

// Handshake is the first byte of a client that starts with TLS.
const Handshake = 0x16

// Transport is the connection under a tls.Conn. What it stands for can be replaced after the
// handshake, by one that waits for the network in another way, or is patient with a slow peer.
//
//	below := tlsconfig.NewTransport(conn, nil)
//	encrypted := tls.Server(below, config)
type Transport struct {
	conn  atomic.Pointer[net.Conn]
	ahead []byte // what was read of the connection and not used
}

var _ net.Conn = (*Transport)(nil)

// NewTransport returns a Transport that stands for conn. ahead has bytes that were read of conn and
// not used.
func NewTransport(conn net.Conn, ahead []byte) *Transport {
	b := &Transport{ahead: ahead}
	b.Replace(conn)
	return b
}

// TransportOf returns what an encrypted connection has below TLS. It is nil if that is no
// Transport, or if the connection is not encrypted.
func TransportOf(c net.Conn) *Transport {
	encrypted, ok := c.(interface{ NetConn() net.Conn })
	if !ok {
		return nil
	}
	b, _ := encrypted.NetConn().(*Transport)
	return b
}

// Conn returns the connection that b stands for now.
func (b *Transport) Conn() net.Conn { return *b.conn.Load() }

// Replace has b stand for conn. Nobody may read or write meanwhile.
func (b *Transport) Replace(conn net.Conn) { b.conn.Store(&conn) }

// Read implements net.Conn.
func (b *Transport) Read(into []byte) (int, error) {
	if len(b.ahead) > 0 {
		n := copy(into, b.ahead)
		b.ahead = b.ahead[n:]
		return n, nil
	}
	return b.Conn().Read(into)
}

// These implement net.Conn.
func (b *Transport) Write(what []byte) (int, error)     { return b.Conn().Write(what) }
func (b *Transport) Close() error                       { return b.Conn().Close() }
func (b *Transport) LocalAddr() net.Addr                { return b.Conn().LocalAddr() }
func (b *Transport) RemoteAddr() net.Addr               { return b.Conn().RemoteAddr() }
func (b *Transport) SetDeadline(t time.Time) error      { return b.Conn().SetDeadline(t) }
func (b *Transport) SetReadDeadline(t time.Time) error  { return b.Conn().SetReadDeadline(t) }
func (b *Transport) SetWriteDeadline(t time.Time) error { return b.Conn().SetWriteDeadline(t) }
