package relay

import (
	"hash/crc32"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// counted counts what a connection has taken.
type counted struct {
	net.Conn
	taken atomic.Int64
}

func (c *counted) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.taken.Add(int64(n))
	return n, err
}

// blocked waits until the connection takes no more, and returns how much it has taken.
func (c *counted) blocked(t *testing.T) int64 {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(time.Minute)
	for last, same := int64(-1), 0; ; <-tick.C {
		now := c.taken.Load()
		if same++; now != last || now == 0 {
			last, same = now, 0
		}
		switch {
		case same == 15:
			return now
		case time.Now().After(deadline):
			t.Fatal("the connection takes everything")
		}
	}
}

// heap returns the bytes that are in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// stream is what a peer sends: no two parts of it are alike.
type stream struct{ at, end int64 }

func (s *stream) Read(b []byte) (int, error) {
	n := int(min(int64(len(b)), s.end-s.at))
	if n == 0 {
		return 0, io.EOF
	}
	for i := range n {
		x := s.at + int64(i)
		b[i] = byte(x ^ x>>8 ^ x>>16)
	}
	s.at += int64(n)
	return n, nil
}

func TestAPeerThatDoesNotReadHoldsUpTheOtherOneAndNobodyElse(t *testing.T) {
	const most = 4 << 20 // the buffers of two connections in Go, and what the test itself needs
	const total = 64 << 20
	onEachEngine(t, func(t *testing.T, engine engine) {
		for name, ends := range map[string]func(*relayed) (from, to peer){
			"the client does not read": func(r *relayed) (peer, peer) { return r.server, r.client },
			"the server does not read": func(r *relayed) (peer, peer) { return r.client, r.server },
		} {
			t.Run(name, func(t *testing.T) {
				before := heap()
				r, other := relay(t, engine, through{}, through{}), relay(t, engine, through{}, through{})
				from, to := ends(r)
				for _, c := range []net.Conn{from, to} {
					_ = c.SetDeadline(time.Now().Add(2 * time.Minute))
				}
				sender, sent := &counted{Conn: from}, crc32.NewIEEE()
				var sending sync.WaitGroup
				sending.Go(func() {
					all := struct{ io.Reader }{io.TeeReader(&stream{end: total}, sent)}
					_, _ = io.CopyBuffer(struct{ io.Writer }{sender}, all, make([]byte, 64<<10))
				})
				taken := sender.blocked(t)
				if more := heap() - before; taken >= total || more > most {
					t.Errorf("%d of %d bytes were taken, and the heap has grown by %d", taken, total, more)
				}
				passes(t, other)
				got := crc32.NewIEEE()
				if n, err := io.CopyN(got, to, total); err != nil {
					t.Errorf("%d bytes arrived: %v", n, err)
				}
				sending.Wait()
				if got.Sum32() != sent.Sum32() {
					t.Error("other bytes arrived than were sent")
				}
			})
		}
	})
}

// passes checks that a session works in both directions.
func passes(t *testing.T, r *relayed) {
	t.Helper()
	for _, way := range [][2]peer{{r.client, r.server}, {r.server, r.client}} {
		if _, err := way[0].Write([]byte("message")); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len("message"))
		if _, err := io.ReadFull(way[1], got); err != nil || string(got) != "message" {
			t.Fatalf("%q, %v", got, err)
		}
	}
}
