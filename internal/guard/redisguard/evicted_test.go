package redisguard

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/guard/guardtest"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// evictedLine is what an evicted client gets for each of its commands.
const evictedLine = "-ERR guard: the place was given to another connection; " +
	"nothing was written; connect again\r\n"

// evicting starts a guard whose clients the test evicts.
func evicting(t *testing.T, e *guardtest.Evictions, with setup) *guarded {
	t.Helper()
	with.limit = func(s *guard.Server) { e.Protocol, s.Protocol = s.Protocol, e }
	return before(t, serverstest.SharedRedis(t), with)
}

// expectEviction fails the test unless the error comes this many times, and then the end of the
// stream.
func (r *raw) expectEviction(times int) {
	r.t.Helper()
	for range times {
		if got := r.reply(); got != evictedLine {
			r.t.Errorf("the client got %q", got)
		}
	}
	r.ended()
}

func TestAClientEvictedBeforeItSendsAnythingIsToldWhy(t *testing.T) {
	t.Parallel()
	e := &guardtest.Evictions{}
	g := evicting(t, e, setup{})
	r := g.raw()
	e.EvictFirst(g.Guard)
	r.expectEviction(1)
}

// The guard picks a silent client, which sends something before the eviction reaches it.
func TestAClientEvictedAsItSendsItsFirstBytesIsToldWhy(t *testing.T) {
	t.Parallel()
	for words, commands := range map[string]int{
		"PING\r\n":           1,
		"FENCE orders 5\r\n": 1,
		"FENCE orders 5\r\nSET a 1\r\n\r\nSET a 2\r\nSET":       3,
		"CLIENT SETNAME fence.orders.5\r\nSET a 1\r\n":          2,
		"HELLO 3 SETNAME fence.orders=5\r\n":                    1,
		"HELLO 3\r\nCLIENT SETNAME fence.orders.5\r\nGET a\r\n": 3,
	} {
		t.Run(words, func(t *testing.T) {
			e := &guardtest.Evictions{AtFirstBytes: true}
			g := evicting(t, e, setup{})
			r := g.raw()
			r.send(words)
			r.expectEviction(commands)
			g.AwaitMetric("ringfence_connections_ended_total", "evicted", 1)
		})
	}
}

// The client's upstream connection is open, but Redis has not answered on it.
func TestAClientEvictedBeforeRedisAnswersIsToldWhy(t *testing.T) {
	t.Parallel()
	for _, words := range []string{"INFO\r\n", "FENCE orders 5\r\n",
		"CLIENT SETNAME fence.orders.5\r\n"} {
		t.Run(words, func(t *testing.T) {
			e, p := &guardtest.Evictions{}, serverstest.NewRelay(t, serverstest.SharedRedis(t).Addr())
			g := evicting(t, e, setup{upstream: p.Addr()})
			r := g.raw()
			r.send("PING\r\n")
			r.expect("+PONG")
			p.Hold()
			r.send(words)
			for !p.Holds() {
				time.Sleep(time.Millisecond)
			}
			e.Now()
			r.expectEviction(1)
		})
	}
}

func TestAClientEvictedDuringItsAdmissionIsToldWhy(t *testing.T) {
	t.Parallel()
	for _, words := range []string{"FENCE orders 5\r\n", "CLIENT SETNAME fence.orders.5\r\n"} {
		t.Run(words, func(t *testing.T) {
			e, s := &guardtest.Evictions{}, guardtest.SlowStore{Registering: make(chan struct{})}
			g := evicting(t, e, setup{
				wrap: func(real marks.Store) marks.Store { s.Store = real; return s },
			})
			r := g.raw()
			r.send(words)
			<-s.Registering
			e.Now()
			r.expectEviction(1)
		})
	}
}

// largeReply is a command without a token whose reply has more than 1 MB.
var largeReply = array(strings.Fields("COMMAND INFO" + strings.Repeat(" set", 6000))...)

// The client would read an error behind half a reply as part of that reply.
func TestAClientEvictedWithinAReplyIsToldNothing(t *testing.T) {
	t.Parallel()
	e := &guardtest.Evictions{}
	g := evicting(t, e, setup{})
	r := g.raw()
	// ends with its connection
	go func() { _, _ = r.conn.Write([]byte(strings.Repeat(largeReply, 30))) }()
	first, err := r.r.ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	e.Now()
	rest, err := io.ReadAll(r.r)
	if err != nil && !disconnected(err) {
		t.Fatal(err)
	}
	stream := append(first, rest...)
	before, told := bytes.CutSuffix(stream, []byte(evictedLine))
	var f frames
	for at := 0; at < len(before); {
		n, _, err := f.scan(before[at:])
		if err != nil || n == 0 {
			break
		}
		at += n
	}
	if told && !f.betweenReplies() {
		t.Errorf("after %d bytes: %q", len(stream), stream[max(0, len(stream)-200):])
	}
}
