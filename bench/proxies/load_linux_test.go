package proxies

import (
	"bufio"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence/bench/internal/ways"
	"github.com/ringfence/ringfence/internal/test/must"
)

// answering listens, and answers each line of a client with the reply.
func answering(t *testing.T, reply string) *ways.Way {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { answer(conn, reply) })
		}
	})
	t.Cleanup(func() { l.Close(); all.Wait() })
	return &ways.Way{Name: ways.Direct, Addr: l.Addr().String()}
}

// answer ends with its client.
func answer(conn net.Conn, reply string) {
	defer conn.Close()
	for r := bufio.NewReader(conn); ; {
		if _, err := r.ReadString('\n'); err != nil {
			return
		}
		if _, err := io.WriteString(conn, reply); err != nil {
			return
		}
	}
}

func TestTheLoadCountsReplies(t *testing.T) {
	l := load{
		clients: 3, depth: 4, command: []byte("PING\n"), reply: []byte("+PONG\n"),
		time: 20 * time.Millisecond,
	}
	o, err := l.run(t.Context(), answering(t, "+PONG\n"))
	must.Succeed(t, err)
	if n := int(o.operations); n < 3*4 || n%4 != 0 || o.value <= 0 {
		t.Errorf("got %+v", o)
	}
}

func TestTheLoadFailsIfAReplyIsAnError(t *testing.T) {
	l := load{
		clients: 2, depth: 1, command: []byte("PING\n"), reply: []byte("+PONG\n"), time: time.Minute,
	}
	_, err := l.run(t.Context(), answering(t, "-ERR\n"))
	if err == nil || !strings.Contains(err.Error(), "-ERR") {
		t.Errorf("got %v", err)
	}
}

func TestTheLoadFailsIfAConnectionEnds(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	var server sync.WaitGroup
	defer server.Wait()
	defer l.Close()
	server.Go(func() {
		if conn, err := l.Accept(); err == nil {
			_, _ = conn.Read(make([]byte, 8))
			conn.Close()
		}
	})
	load := load{
		clients: 1, depth: 1, command: []byte("PING\n"), reply: []byte("+PONG\n"), time: time.Minute,
	}
	_, err = load.run(t.Context(), &ways.Way{Name: ways.Direct, Addr: l.Addr().String()})
	if err == nil || errors.Is(err, io.EOF) {
		t.Errorf("got %v", err)
	}
}
