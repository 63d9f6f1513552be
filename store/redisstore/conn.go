package redisstore

import (
	"context"
	"net"
	"syscall"
)

// termConn is a connection that ends with a term.
type termConn struct {
	net.Conn
	release func() bool // stops watching the term
}

// closeOnDone closes a connection when ctx ends, at once if it has ended. Closing the connection
// stops the watch on ctx.
func closeOnDone(ctx context.Context, c net.Conn) net.Conn {
	t := &termConn{Conn: c, release: context.AfterFunc(ctx, func() { _ = belowTLS(c).Close() })}
	if s, ok := c.(syscall.Conn); ok {
		return termSocketConn{t, s}
	}
	return t
}

// belowTLS returns the connection below TLS. Close of a TLS connection waits until the peer has
// taken the closing alert.
func belowTLS(c net.Conn) net.Conn {
	if below, ok := c.(interface{ NetConn() net.Conn }); ok {
		return below.NetConn()
	}
	return c
}

// Close implements net.Conn.
func (t *termConn) Close() error {
	t.release()
	return t.Conn.Close()
}

// NetConn lets the driver look for data that has come in.
func (t *termConn) NetConn() net.Conn { return t.Conn }

// termSocketConn lets the driver check the socket itself, so that it does not use a dead
// connection.
type termSocketConn struct {
	*termConn
	syscall.Conn
}
