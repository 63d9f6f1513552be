package redis

import (
	"context"
	"net"
	"syscall"
)

// held is a connection that ends with a term.
type held struct {
	net.Conn
	release func() bool
}

// hold cuts a connection when ctx ends, at once if it has; until it is closed.
func hold(ctx context.Context, c net.Conn) net.Conn {
	h := &held{Conn: c, release: context.AfterFunc(ctx, func() { _ = plain(c).Close() })}
	if s, ok := c.(syscall.Conn); ok {
		return heldSocket{h, s}
	}
	return h
}

// plain is the connection below TLS, whose Close waits for the peer to take a farewell.
func plain(c net.Conn) net.Conn {
	if below, ok := c.(interface{ NetConn() net.Conn }); ok {
		return below.NetConn()
	}
	return c
}

// Close implements net.Conn.
func (h *held) Close() error {
	h.release()
	return h.Conn.Close()
}

// NetConn lets the driver look for data that has come in.
func (h *held) NetConn() net.Conn { return h.Conn }

// heldSocket lets the driver look at the socket itself, to know a dead connection before it uses it.
type heldSocket struct {
	*held
	syscall.Conn
}
