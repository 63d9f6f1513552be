package redisstore

import (
	"context"
	"io"
	"net"
	"testing"
	"time"
)

// wrapped stands for a TLS connection: it exposes the connection below, and its own Close may wait
// for the peer.
type wrapped struct {
	net.Conn
	closed bool
}

func (w *wrapped) NetConn() net.Conn { return w.Conn }

func (w *wrapped) Close() error { w.closed = true; return w.Conn.Close() }

func TestALostTermCutsTheConnectionBelowTLS(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe()
	defer far.Close()
	_ = far.SetDeadline(time.Now().Add(20 * time.Second))
	ctx, lose := context.WithCancel(t.Context())
	w := &wrapped{Conn: near}
	c := closeOnDone(ctx, w)
	lose()
	if _, err := io.ReadAll(far); err != nil { // until the connection is cut
		t.Error(err)
	}
	if w.closed {
		t.Error("the TLS connection was closed, which may wait")
	}
	_ = c.Close()
	if !w.closed {
		t.Error("Close did not reach the connection")
	}
}

// A term may last for months and open many connections.
func TestATermForgetsConnectionsThatAreClosed(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe()
	defer far.Close()
	c := closeOnDone(t.Context(), near)
	_ = c.Close()
	if c.(*termConn).release() {
		t.Error("the term still holds the closed connection")
	}
}
