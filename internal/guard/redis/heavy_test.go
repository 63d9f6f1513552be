package redis

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/servers"
	"github.com/ringfence/ringfence/internal/servers/serverstest"
)

// heavy is a script that keeps Redis busy for about this time, and then writes. It counts, because for scripts of newer
// servers the clock stands still.
func (g *guarded) heavy(d time.Duration) string {
	g.t.Helper()
	const count = `for i = 1, %d do end return redis.call('RPUSH', 'written', 'x')`
	const some = 2_000_000
	takes := time.Hour
	for range 3 { // the server may stand still for a moment
		begin := time.Now()
		if err := g.direct().Eval(g.t.Context(), fmt.Sprintf(count, some), nil).Err(); err != nil {
			g.t.Fatal(err)
		}
		takes = min(takes, time.Since(begin))
	}
	return array("EVAL", fmt.Sprintf(count, int64(some*float64(d)/float64(takes))), "0")
}

// busily sends a script again and again until the session ends, and wants an answer each time: to the last one, that there
// is a newer leader.
func (r *raw) busily(script string) {
	for {
		if _, err := r.conn.Write([]byte(script)); err != nil && !isClosed(err) {
			r.t.Error(err)
		}
		switch reply := r.reply(); {
		case strings.HasPrefix(reply, ":"):
		case strings.HasPrefix(reply, "-STALETOKEN "):
			r.ended()
			return
		default:
			r.t.Errorf("a script was answered with %q", reply)
			return
		}
	}
}

// withThreads is a Redis with threads for its sockets: while one runs a script the others go on reading.
func withThreads(t *testing.T) *servers.Redis {
	return serverstest.Redis(t, servers.RedisOptions{Args: []string{"--io-threads", "4", "--io-threads-do-reads", "yes"}})
}

// Each leader runs heavy scripts on several connections without a pause, and is deposed by the next one. Clients without a
// token try to do the same.
func TestEverybodyIsAnsweredAndTheNewLeaderGetsInWhileHeavyScriptsRun(t *testing.T) {
	g := before(t, withThreads(t), setup{})
	const clients = 3
	script := g.heavy(200 * time.Millisecond)
	var all sync.WaitGroup
	over := make(chan struct{})
	for range clients {
		r := g.raw()
		all.Go(func() {
			for ended := false; !ended; {
				r.send(script + "PING\r\n")
				r.expect("-NOTOKEN ", "+PONG")
				select {
				case <-over:
					ended = true
				default:
				}
			}
		})
	}
	for token := 5; token < 7; token++ {
		for range clients {
			r := g.claims(token, 2*time.Minute)
			all.Go(func() { r.busily(script) })
		}
	}
	g.claims(7, 2*time.Minute)
	close(over)
	all.Wait()
}

// claims is a session of a client that claims again where it is told to try again.
func (g *guarded) claims(token int, patience time.Duration) *raw {
	g.t.Helper()
	for deadline := time.Now().Add(patience); ; {
		r := g.raw()
		r.send(fmt.Sprintf("FENCE orders %d\r\n", token))
		got := r.reply()
		if got == "+OK\r\n" {
			return r
		}
		if !strings.HasPrefix(got, "-REVOKE ") || time.Now().After(deadline) {
			g.t.Fatalf("token %d: %q", token, got)
		}
		r.ended()
	}
}

// Otherwise an admission that begins anew with each try would never come to its end where the answers of Redis together take
// longer than it may.
func TestWhatAnAdmissionCouldNotEndInTimeIsGoneOnWith(t *testing.T) {
	s := &halting{}
	g := before(t, serverstest.Redis(t, servers.RedisOptions{}), setup{
		Options: Options{Admission: &marks.Admission{Authority: marks.Unverified{}, Timeout: 2 * time.Second}},
		wrap:    func(real marks.Store) marks.Store { s.Store = real; return s },
	})
	old, newer := g.fenced(5), g.raw()
	s.halts.Store(true)
	newer.send("FENCE orders 6\r\n")
	newer.expect("-REVOKE ")
	old.expect("-STALETOKEN ") // nobody has claimed again
	g.fenced(6)
}

func TestAGuardEndsThoughItGoesOnWithAnAdmissionAndRedisStandsStill(t *testing.T) {
	s := &halting{}
	g := before(t, serverstest.Redis(t, servers.RedisOptions{}), setup{
		Options: Options{Admission: &marks.Admission{Authority: marks.Unverified{}, Timeout: 2 * time.Second}},
		wrap:    func(real marks.Store) marks.Store { s.Store = real; return s },
	})
	s.meanwhile = func() {
		if err := g.server.Pause(); err != nil {
			t.Error(err)
		}
	}
	newer := g.raw()
	s.halts.Store(true)
	newer.send("FENCE orders 6\r\n")
	newer.expect("-REVOKE ")
	begin := time.Now()
	g.stop()
	if d := time.Since(begin); d > backgroundRaiseTime/2 {
		t.Errorf("it took %v", d)
	}
	if err := g.server.Resume(); err != nil {
		t.Fatal(err)
	}
}

// A client that has not been seen to be logged in must not raise a mark.
func TestNobodyPursuesAClaimOfAnUnknownSession(t *testing.T) {
	p := newBackgroundRaises(&marks.Admission{Authority: marks.Unverified{}})
	p.start(marks.Session{}, []marks.Presented{{Resource: "orders", Token: 5}})
	if len(p.running) > 0 {
		t.Error("its mark is being raised")
	}
	p.close(func() {})
}

// halting is a store whose next raise takes as long as it may.
type halting struct {
	marks.Store
	halts     atomic.Bool
	meanwhile func()
}

func (h *halting) Raise(ctx context.Context, newcomer marks.Session, c fence.Claim, confirm marks.Confirm) (marks.Mark, error) {
	if h.halts.Swap(false) {
		if h.meanwhile != nil {
			h.meanwhile()
		}
		<-ctx.Done()
		return marks.Mark{}, ctx.Err()
	}
	return h.Store.Raise(ctx, newcomer, c, confirm)
}

// Behind heavy scripts each question costs seconds.
func TestANewLeaderIsInAfterNineQuestions(t *testing.T) {
	server := serverstest.Redis(t, servers.RedisOptions{})
	p := passageTo(t, server.Addr())
	other, g := before(t, server, setup{}), before(t, server, setup{upstream: p.Addr().String()})
	g.fenced(5) // by now Redis knows the scripts
	least := int64(100)
	for token := 6; token < 26 && least > 9; token += 2 { // a machine that stalls makes it look again
		other.fenced(token)
		asked := p.questions.Load()
		g.fenced(token + 1)
		least = min(least, p.questions.Load()-asked)
	}
	if least > 9 {
		t.Errorf("it has asked %d times at least", least)
	}
}
