package redis

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// passage relays to a server until it is shut; then nothing that a client sends gets any further.
type passage struct {
	net.Listener
	shut      atomic.Bool
	stopped   chan struct{} // takes one when something was held back
	questions atomic.Int64  // how often clients have sent something after an answer

	answered atomic.Bool // since the last question
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
				p.questions.Add(1)
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

// answering is the way back to a client.
type answering struct {
	io.Writer
	p *passage
}

func (a answering) Write(b []byte) (int, error) {
	a.p.answered.Store(true)
	return a.Writer.Write(b)
}
