package redisguard

import (
	"context"
	"strings"
	"testing"
	"time"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

func TestAShutdownTellsClientsBetweenCommandsAndWaitsForATransaction(t *testing.T) {
	t.Parallel()
	g := before(t, serverstest.Redis(t, servers.RedisOptions{}), setup{drain: 20 * time.Second})
	early, idle, subscribed, busy := g.raw(), g.fenced(5), g.fenced(5), g.fenced(5)
	early.send("PING\r\n")
	early.expect("+PONG")
	subscribed.send("SUBSCRIBE ch\r\n")
	subscribed.expect(anyReply)
	busy.send("MULTI\r\nSET a 1\r\n")
	busy.expect("+OK", "+QUEUED")

	stopped := make(chan struct{})
	go func() { g.Stop(); close(stopped) }()
	for _, r := range []*raw{early, idle, subscribed} {
		r.expect("-ERR guard: shutting down")
		r.ended()
	}
	select {
	case <-stopped:
		t.Fatal("the guard did not wait for the open transaction")
	default:
	}
	busy.send("INCR a\r\nEXEC\r\nSET a 9\r\n")
	busy.expect("+QUEUED", "*2\r\n+OK\r\n:2\r\n", "-ERR guard: shutting down")
	busy.ended()
	<-stopped
	if v := g.direct().Get(t.Context(), "a").Val(); v != "2" {
		t.Errorf("a is %s: a command behind the transaction was executed", v)
	}
}

// Every command that was sent before the drain is answered before the connection ends.
func TestAShutdownWaitsForTheAnswersOfAPipeline(t *testing.T) {
	t.Parallel()
	g := before(t, serverstest.Redis(t, servers.RedisOptions{}), setup{drain: 20 * time.Second})
	r := g.fenced(5)
	r.send("INCR a\r\n")
	r.expect(":1\r\n")
	r.send("BLPOP queue 0\r\n")
	g.blocked("in BLPOP")
	stopped := make(chan struct{})
	go func() { g.Stop(); close(stopped) }()
	if err := g.direct().RPush(t.Context(), "queue", "x").Err(); err != nil {
		t.Fatal(err)
	}
	r.expect("*2\r\n$5\r\nqueue\r\n$1\r\nx\r\n", "-ERR guard: shutting down")
	r.ended()
	<-stopped
}

// Connections that are still busy at the drain deadline are cut: a blocking command could last
// forever. Their clients are told so, as the answer to that command.
func TestTheDrainHasADeadline(t *testing.T) {
	t.Parallel()
	g := before(t, serverstest.Redis(t, servers.RedisOptions{}), setup{
		drain: 50 * time.Millisecond,
	})
	blocked, open := g.fenced(5), g.fenced(5)
	blocked.send("BLPOP queue 0\r\n")
	open.send("MULTI\r\nSET a 1\r\n")
	open.expect("+OK", "+QUEUED")
	g.blocked("in BLPOP") // or the drain might begin before the command
	g.Stop()
	for _, r := range []*raw{blocked, open} {
		r.expect("-ERR guard: shut down; a command without an answer was executed or not")
		r.ended()
	}
	if n := g.direct().Exists(t.Context(), "a").Val(); n != 0 {
		t.Error("the transaction was executed")
	}
}

// A driver does not repeat a command by itself that has got an answer.
func TestABlockedReadOfAStreamGetsAnErrorAtTheDrainDeadline(t *testing.T) {
	t.Parallel()
	g := before(t, serverstest.Redis(t, servers.RedisOptions{}), setup{drain: 50 * time.Millisecond})
	c := g.leader(5)
	failed := make(chan error, 1)
	go func() {
		_, err := c.XRead(context.Background(), &driver.XReadArgs{
			Streams: []string{"s", "0"}, Block: 0,
		}).Result()
		failed <- err
	}()
	g.blocked("in XREAD")
	g.Stop()
	if err := <-failed; err == nil || !strings.HasPrefix(err.Error(), "ERR guard: shut down") {
		t.Errorf("got %v", err)
	}
}
