package serverstest

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// Relay stands between one client and a server. It passes bytes, and can hold all of them back.
type Relay struct {
	server   string
	listener net.Listener
	work     sync.WaitGroup

	mu     sync.Mutex
	open   *sync.Cond
	held   bool
	closed bool
	conns  map[net.Conn]bool
}

// NewRelay relays to a server until the test ends.
func NewRelay(t testing.TB, server string) *Relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &Relay{server: server, listener: l, conns: map[net.Conn]bool{}}
	r.open = sync.NewCond(&r.mu)
	r.work.Go(r.accept)
	t.Cleanup(r.close)
	return r
}

// Addr is where the client connects.
func (r *Relay) Addr() string { return r.listener.Addr().String() }

// Hold lets nothing through until Pass.
func (r *Relay) Hold() { r.set(func() { r.held = true }) }

// To makes later connections go to another server, and breaks the present ones.
func (r *Relay) To(server string) {
	r.set(func() { r.server = server })
	r.Drop()
}

// Pass lets everything through again.
func (r *Relay) Pass() { r.set(func() { r.held = false }) }

// Drop breaks every connection.
func (r *Relay) Drop() {
	r.set(func() {
		for c := range r.conns {
			c.Close()
		}
	})
}

func (r *Relay) set(do func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	do()
	r.open.Broadcast()
}

func (r *Relay) close() {
	r.set(func() {
		r.closed = true
		for c := range r.conns {
			c.Close()
		}
	})
	r.listener.Close()
	r.work.Wait()
}

func (r *Relay) accept() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.work.Go(func() { r.serve(client) })
	}
}

func (r *Relay) serve(client net.Conn) {
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

func (r *Relay) keep(c net.Conn) (closeIt func()) {
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

func (r *Relay) pump(from, to net.Conn) {
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
func (r *Relay) wait() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.held && !r.closed {
		r.open.Wait()
	}
	return !r.closed
}
