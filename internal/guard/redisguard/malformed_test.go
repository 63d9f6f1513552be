package redisguard

import (
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/test/poll"
)

// Redis answers what comes before a malformed command first, however long that takes.
func TestTheErrorOfAMalformedCommandComesBehindTheAnswerOfABlockedOne(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]string{
		"BLPOP": "", "behind a refused command": "FLUSHALL\r\n", "RESP3": "HELLO 3\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			g := fresh(t)
			r := g.fenced(5)
			if begin != "" {
				r.send(begin)
				_ = r.reply()
			}
			r.send("BLPOP q 0\r\n*x\r\nSET a 1\r\n")
			g.awaitBlocked()
			if err := g.direct().RPush(t.Context(), "q", "v").Err(); err != nil {
				t.Fatal(err)
			}
			r.expect("*2", "-ERR Protocol error: invalid multibulk length")
			r.ended()
			if n := g.direct().Exists(t.Context(), "a").Val(); n != 0 {
				t.Error("a command behind the malformed one was executed")
			}
		})
	}
}

// awaitBlocked waits until a client of Redis waits in a command that blocks, beside the guard's
// watch.
func (g *guarded) awaitBlocked() {
	g.t.Helper()
	db := g.direct()
	if !poll.Until(time.Minute, func() bool {
		return strings.Contains(db.Info(g.t.Context(), "clients").Val(), "blocked_clients:2")
	}) {
		g.t.Fatal("no client is blocked")
	}
}

// Without replies the error has no place, so the guard does not wait for one. (Redis itself would
// keep the connection.)
func TestAMalformedCommandEndsASessionWithoutReplies(t *testing.T) {
	t.Parallel()
	r := fresh(t).fenced(5)
	r.says("CLIENT REPLY OFF\r\nSET a 1\r\n*x\r\n", "-ERR Protocol error")
	r.ended()
}

func TestAMalformedCommandEndsATransactionAndASubscription(t *testing.T) {
	t.Parallel()
	g := fresh(t)
	r := g.fenced(5)
	r.says("MULTI\r\nSET a 1\r\n*x\r\n", "+OK", "+QUEUED", "-ERR Protocol error")
	r.ended()
	r = g.fenced(5)
	r.says("SUBSCRIBE c\r\n*x\r\n", "*3", "-ERR Protocol error")
	r.ended()
}
