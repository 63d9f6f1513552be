package tlsconfig

import (
	"net"
	"sync/atomic"
	"time"
)

// Below is a connection to use below TLS. What it stands for can be replaced after the handshake, by
// one that waits for the network in another way, or is patient with a slow peer.
//
//	below := tlsconfig.NewBelow(conn, nil)
//	encrypted := tls.Server(below, config)
type Below struct {
	conn  atomic.Pointer[net.Conn]
	ahead []byte // what was read of the connection and not used
}

var _ net.Conn = (*Below)(nil)

// NewBelow returns a Below that stands for conn. ahead has bytes that were read of conn and not used.
func NewBelow(conn net.Conn, ahead []byte) *Below {
	b := &Below{ahead: ahead}
	b.Replace(conn)
	return b
}

// BelowOf returns what an encrypted connection has below TLS. It is nil if that is no Below, or if
// the connection is not encrypted.
func BelowOf(c net.Conn) *Below {
	encrypted, ok := c.(interface{ NetConn() net.Conn })
	if !ok {
		return nil
	}
	b, _ := encrypted.NetConn().(*Below)
	return b
}

// Conn returns the connection that b stands for now.
func (b *Below) Conn() net.Conn { return *b.conn.Load() }

// Replace has b stand for conn. Nobody may read or write meanwhile.
func (b *Below) Replace(conn net.Conn) { b.conn.Store(&conn) }

// Read implements net.Conn.
func (b *Below) Read(into []byte) (int, error) {
	if len(b.ahead) > 0 {
		n := copy(into, b.ahead)
		b.ahead = b.ahead[n:]
		return n, nil
	}
	return b.Conn().Read(into)
}

// These implement net.Conn.
func (b *Below) Write(what []byte) (int, error)     { return b.Conn().Write(what) }
func (b *Below) Close() error                       { return b.Conn().Close() }
func (b *Below) LocalAddr() net.Addr                { return b.Conn().LocalAddr() }
func (b *Below) RemoteAddr() net.Addr               { return b.Conn().RemoteAddr() }
func (b *Below) SetDeadline(t time.Time) error      { return b.Conn().SetDeadline(t) }
func (b *Below) SetReadDeadline(t time.Time) error  { return b.Conn().SetReadDeadline(t) }
func (b *Below) SetWriteDeadline(t time.Time) error { return b.Conn().SetWriteDeadline(t) }
