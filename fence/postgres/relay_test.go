package postgres

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// relay stands between one client and the server. It can hold all traffic back.
type relay struct {
	server   string
	listener net.Listener
	work     sync.WaitGroup

	mu     sync.Mutex
	open   *sync.Cond
	held   bool
	closed bool
	conns  map[net.Conn]bool
}

func newRelay(t testing.TB, server string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{server: server, listener: l, conns: map[net.Conn]bool{}}
	r.open = sync.NewCond(&r.mu)
	r.work.Go(r.accept)
	t.Cleanup(r.close)
	return r
}

func (r *relay) addr() string { return r.listener.Addr().String() }

// hold lets nothing through until pass.
func (r *relay) hold() { r.set(func() { r.held = true }) }

// to makes later connections go to another server, and breaks those of now.
func (r *relay) to(server string) {
	r.set(func() { r.server = server })
	r.drop()
}

// pass lets everything through again.
func (r *relay) pass() { r.set(func() { r.held = false }) }

// drop breaks every connection.
func (r *relay) drop() {
	r.set(func() {
		for c := range r.conns {
			c.Close()
		}
	})
}

func (r *relay) set(do func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	do()
	r.open.Broadcast()
}

func (r *relay) close() {
	r.set(func() {
		r.closed = true
		for c := range r.conns {
			c.Close()
		}
	})
	r.listener.Close()
	r.work.Wait()
}

func (r *relay) accept() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.work.Go(func() { r.serve(client) })
	}
}

func (r *relay) serve(client net.Conn) {
	defer r.keep(client)()
	if !r.wait() {
		return
	}
	r.mu.Lock()
	addr := r.server
	r.mu.Unlock()
	server, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		return
	}
	defer r.keep(server)()
	var both sync.WaitGroup
	both.Go(func() { r.pump(client, server) })
	both.Go(func() { r.pump(server, client) })
	both.Wait()
}

func (r *relay) keep(c net.Conn) (closeIt func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		c.Close()
	}
	r.conns[c] = true
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.conns, c)
		c.Close()
	}
}

func (r *relay) pump(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && r.wait() {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err == io.EOF || err != nil || !r.wait() {
			return
		}
	}
}

// wait returns false once the relay is closed.
func (r *relay) wait() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.held && !r.closed {
		r.open.Wait()
	}
	return !r.closed
}
