package serverstest

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// Wire relays connections to a server. After Cut is set, the next answer is not relayed; its
// connection is closed instead.
type Wire struct {
	net.Listener
	Cut atomic.Bool

	server string
	all    sync.WaitGroup
}

// NewWire starts a relay to a server's address, and waits for its end after the test. The test has
// to close its connections before.
func NewWire(t testing.TB, server string) *Wire {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &Wire{Listener: l, server: server}
	w.all.Go(w.accept)
	t.Cleanup(func() {
		_ = l.Close()
		w.all.Wait()
	})
	return w
}

func (w *Wire) accept() {
	for {
		c, err := w.Accept()
		if err != nil {
			return
		}
		s, err := net.Dial("tcp", w.server)
		if err != nil {
			_ = c.Close()
			continue
		}
		w.all.Go(func() { w.down(c, s) })
		w.all.Go(func() {
			_, _ = io.Copy(s, c)
			_ = s.Close()
		})
	}
}

// down relays answers.
func (w *Wire) down(client, server net.Conn) {
	defer client.Close()
	defer server.Close()
	b := make([]byte, 64<<10)
	for {
		n, err := server.Read(b)
		if err != nil || w.Cut.CompareAndSwap(true, false) {
			return
		}
		if _, err := client.Write(b[:n]); err != nil {
			return
		}
	}
}
