package redis

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// passage relays to a server until it is shut. Then it forwards nothing that a client sends.
type passage struct {
	net.Listener
	shut       atomic.Bool
	stopped    chan struct{} // holds a value once something was held back
	roundTrips atomic.Int64  // how often clients have sent something after an answer came

	answered atomic.Bool // since a client last sent something
}

func passageTo(t *testing.T, addr string) *passage {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &passage{Listener: l, stopped: make(chan struct{}, 1)}
	p.answered.Store(true)
	var all sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); all.Wait() })
	all.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", addr)
			if err != nil {
				_ = client.Close()
				continue
			}
			all.Go(func() { _, _ = io.Copy(answering{client, p}, server); _ = client.Close() })
			all.Go(func() { p.up(server, client); _ = server.Close() })
		}
	})
	return p
}

func (p *passage) up(server io.Writer, client io.Reader) {
	b := make([]byte, 4096)
	for {
		n, err := client.Read(b)
		if err != nil {
			return
		}
		if !p.shut.Load() {
			if p.answered.Swap(false) {
				p.roundTrips.Add(1)
			}
			_, _ = server.Write(b[:n])
			continue
		}
		select {
		case p.stopped <- struct{}{}:
		default:
		}
	}
}

// answering writes to a client and records that an answer came.
type answering struct {
	io.Writer
	p *passage
}

func (a answering) Write(b []byte) (int, error) {
	a.p.answered.Store(true)
	return a.Writer.Write(b)
}
