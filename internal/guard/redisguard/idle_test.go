package redisguard

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

func TestASessionThatNobodyUsesEnds(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]func(*guard.Server){
		"loops": nil, "goroutines": func(s *guard.Server) { s.Loops = nil },
	} {
		t.Run(name, func(t *testing.T) {
			g := before(t, serverstest.SharedRedis(t), setup{
				Options: Options{SessionIdleTimeout: 200 * time.Millisecond}, limit: limit,
			})
			blocked, subscribed, inMulti := g.fenced(5), g.fenced(5), g.fenced(5)
			blocked.send("BLPOP " + name + " 0\r\n")
			subscribed.send("SUBSCRIBE " + name + "\r\n")
			subscribed.reply()
			silent := g.fenced(5)
			silent.send("CLIENT REPLY OFF\r\n")
			inMulti.send("MULTI\r\n")
			inMulti.expect("+OK")
			for range 3 { // one after the other, so the sessions above are idle for longer
				idle := g.fenced(5)
				idle.send("PING\r\n")
				idle.expect("+PONG", "-ERR guard: nothing has passed for 200ms")
				idle.ended()
			}
			direct := g.direct()
			must.Succeed(t, direct.RPush(t.Context(), name, "value").Err())
			if n := direct.Publish(t.Context(), name, "message").Val(); n != 1 {
				t.Errorf("%d subscribers", n)
			}
			blocked.expect("*2")
			subscribed.expect("*3")
			inMulti.send("EXEC\r\n")
			inMulti.expect("*0")
			_ = subscribed.conn.Close()
			silent.ended() // after a second limit: Redis does not answer the sentinel either
			g.AwaitMetric("ringfence_connections", "admitted", 0)
			g.AwaitMetric("ringfence_connections_ended_total", "idle_session", 6)
		})
	}
}

// The client has its replies still to come. They are in the buffers of three processes.
func TestASlowReaderIsNotIdle(t *testing.T) {
	t.Parallel()
	const replies = 50
	for name, limit := range map[string]func(*guard.Server){
		"loops": nil, "goroutines": func(s *guard.Server) { s.Loops = nil },
	} {
		t.Run(name, func(t *testing.T) {
			g := before(t, serverstest.SharedRedis(t), setup{
				Options: Options{SessionIdleTimeout: 100 * time.Millisecond}, limit: limit,
			})
			big := strings.Repeat("x", 1<<20)
			must.Succeed(t, g.direct().Set(t.Context(), "big", big, 0).Err())
			slow := g.fenced(5)
			slow.send(strings.Repeat("GET big\r\n", replies))
			for range 3 {
				idle := g.fenced(5)
				idle.expect("-ERR guard: nothing has passed for 100ms")
			}
			got := make([]byte, replies*len("$1048576\r\n"+big+"\r\n"))
			if _, err := io.ReadFull(slow.r, got); err != nil {
				t.Error(err)
			}
		})
	}
}

// A command that has not reached Redis yet is no reason to call its session unused: its answer
// comes before the guard's last word.
func TestACommandOnItsWayIsAnsweredBeforeTheEnd(t *testing.T) {
	t.Parallel()
	redis := serverstest.SharedRedis(t)
	network := serverstest.NewRelayWith(t, redis.Addr(), servers.RelayOptions{
		Serve: holdUntilMoreComes("GET late"),
	})
	g := before(t, redis, setup{
		Options: Options{SessionIdleTimeout: 100 * time.Millisecond}, upstream: network.Addr(),
	})
	must.Succeed(t, g.direct().Set(t.Context(), "late", "answer", 0).Err())
	session := g.fenced(5)
	session.send("GET late\r\n")
	session.expect("$6", "-ERR guard: nothing has passed for 100ms")
	session.ended()
}

// holdUntilMoreComes passes bytes on, but those with a text only when something comes after them,
// or the client has left.
func holdUntilMoreComes(text string) func(_ *servers.Relay, client, server net.Conn) {
	return func(_ *servers.Relay, client, server net.Conn) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = io.Copy(client, server)
			_ = client.Close()
		}()
		defer func() { _ = server.Close(); <-done }()
		b := make([]byte, 4096)
		for held := []byte{}; ; {
			n, err := client.Read(b)
			held = append(held, b[:n]...)
			if n > 0 && bytes.HasPrefix(held, []byte(text)) && bytes.HasPrefix(b[:n], []byte(text)) {
				continue
			}
			if _, writeErr := server.Write(held); err != nil || writeErr != nil {
				return
			}
			held = held[:0]
		}
	}
}
