package redisguard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// heavy returns a script that keeps Redis busy for about d and then writes. It counts, because
// newer servers stop the clock for scripts.
func (g *guarded) heavy(d time.Duration) string {
	g.t.Helper()
	const count = `for i = 1, %d do end return redis.call('RPUSH', 'written', 'x')`
	const some = 2_000_000
	takes := time.Hour
	for range 3 { // the server may be paused for a moment
		begin := time.Now()
		must.Succeed(g.t, g.direct().Eval(g.t.Context(), fmt.Sprintf(count, some), nil).Err())
		takes = min(takes, time.Since(begin))
	}
	return array("EVAL", fmt.Sprintf(count, int64(some*float64(d)/float64(takes))), "0")
}

// busily sends a script again and again until the session ends. Every script must be answered, the
// last one with the refusal that names a newer leader.
func (r *raw) busily(script string) {
	for {
		if _, err := r.conn.Write([]byte(script)); err != nil && !disconnected(err) {
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

// withThreads starts a Redis with io-threads: while one thread runs a script, the others keep
// reading.
func withThreads(t *testing.T) *servers.Redis {
	return serverstest.Redis(t, servers.RedisOptions{
		Args: []string{"--io-threads", "4", "--io-threads-do-reads", "yes"},
	})
}

// Each leader runs heavy scripts on several connections without a pause until the next leader
// deposes it. Clients without a token try to run scripts as well.
func TestWhileHeavyScriptsRunEveryClientIsAnsweredAndTheNewLeaderGetsIn(t *testing.T) {
	t.Parallel()
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
			r := g.claimAgain(token, 2*time.Minute, "-REVOKE ")
			all.Go(func() { r.busily(script) })
		}
	}
	g.claimAgain(7, 2*time.Minute, "-REVOKE ")
	close(over)
	all.Wait()
}

// claimAgain opens a session. It claims again after a reply with this prefix, and fails the test
// after any other.
func (g *guarded) claimAgain(token int, patience time.Duration, retry string) *raw {
	g.t.Helper()
	for deadline := time.Now().Add(patience); ; {
		r := g.raw()
		r.send(fmt.Sprintf("FENCE orders %d\r\n", token))
		got := r.reply()
		if got == "+OK\r\n" {
			return r
		}
		if !strings.HasPrefix(got, retry) || time.Now().After(deadline) {
			g.t.Fatalf("token %d: %q", token, got)
		}
		if retry != "" {
			r.ended()
		}
	}
}

// If each attempt began from the start, an admission could never finish where Redis's answers
// together take longer than its timeout.
func TestAnAdmissionThatTimedOutContinuesInTheBackground(t *testing.T) {
	t.Parallel()
	g, s := newHalting(t)
	old, newer := g.fenced(5), g.raw()
	s.halts.Store(true)
	newer.send("FENCE orders 6\r\n")
	newer.expect("-REVOKE ")
	old.expect("-STALETOKEN ") // though no client has claimed again
	g.fenced(6)
}

func TestAGuardStopsInTimeWhileItContinuesAnAdmissionAndRedisIsPaused(t *testing.T) {
	t.Parallel()
	g, s := newHalting(t)
	s.meanwhile = func() {
		must.Report(t, g.server.Pause())
	}
	newer := g.raw()
	s.halts.Store(true)
	newer.send("FENCE orders 6\r\n")
	newer.expect("-REVOKE ")
	begin := time.Now()
	g.Stop()
	if d := time.Since(begin); d > backgroundRaiseTime/2 {
		t.Errorf("the guard took %v to stop", d)
	}
	must.Succeed(t, g.server.Resume())
}

// A client must not raise a mark before it has proved that it is logged in.
func TestTheClaimOfAnUnidentifiedSessionIsNotContinued(t *testing.T) {
	t.Parallel()
	p := newBackgroundRaises(&marks.Admission{Authority: marks.Unverified{}})
	p.start(marks.Client{}, marks.SessionID{}, []marks.Presented{{Resource: "orders", Token: 5}})
	if len(p.running) > 0 {
		t.Error("the mark of an unidentified session is being raised")
	}
	p.close(func() {})
}

// An admission that has timed out may not have come to the question whether the user may claim.
func TestTheClaimOfAUserThatMayNotClaimIsNotContinued(t *testing.T) {
	t.Parallel()
	h, finished := &haltingRegister{}, make(chan error, 10)
	a := &marks.Admission{Authority: marks.Unverified{}, Timeout: 2 * time.Second}
	g := before(t, serverstest.Redis(t, servers.RedisOptions{}), setup{
		Options: Options{Admission: a},
		wrap: func(real marks.Store) marks.Store {
			h.Store = real
			a.Notify = func(e marks.Event) {
				if e.Kind == marks.Finished {
					finished <- e.Err
				}
			}
			return h
		},
	})
	old := g.fenced(5)
	must.Succeed(t, h.Store.(marks.Authorizer).Authorize(t.Context(), true))
	h.halts.Store(true)
	newer := g.raw()
	newer.send("FENCE orders 6\r\n")
	newer.expect("-REVOKE ")
	for _, want := range []error{nil, context.DeadlineExceeded, fence.ErrNotAuthorized} {
		select {
		case err := <-finished:
			if !errors.Is(err, want) {
				t.Errorf("got %v, want %v", err, want)
			}
		case <-time.After(time.Minute):
			t.Fatalf("nothing ended with %v", want)
		}
	}
	old.send("PING\r\n")
	old.expect("+PONG")
}

// haltingRegister is a store whose next registration lasts until its timeout.
type haltingRegister struct {
	marks.Store
	halts atomic.Bool
}

func (h *haltingRegister) Register(
	ctx context.Context, s marks.SessionID, claims []fence.Claim,
) (marks.Registration, error) {
	if h.halts.Swap(false) {
		<-ctx.Done()
		return marks.Registration{}, ctx.Err()
	}
	return h.Store.Register(ctx, s, claims)
}

// halting is a store whose next raise lasts until its timeout.
type halting struct {
	marks.Store
	halts     atomic.Bool
	meanwhile func()
}

// newHalting starts a guard with a halting store, whose admissions time out after 2 s.
func newHalting(t *testing.T) (*guarded, *halting) {
	t.Helper()
	h := &halting{}
	return before(t, serverstest.Redis(t, servers.RedisOptions{}), setup{
		Options: Options{
			Admission: &marks.Admission{Authority: marks.Unverified{}, Timeout: 2 * time.Second},
		},
		wrap: func(real marks.Store) marks.Store { h.Store = real; return h },
	}), h
}

func (h *halting) Raise(
	ctx context.Context, newcomer marks.SessionID, c fence.Claim, confirm marks.Confirm,
) (marks.Mark, error) {
	if h.halts.Swap(false) {
		if h.meanwhile != nil {
			h.meanwhile()
		}
		<-ctx.Done()
		return marks.Mark{}, ctx.Err()
	}
	return h.Store.Raise(ctx, newcomer, c, confirm)
}

// Behind heavy scripts each round trip takes seconds.
func TestANewLeaderIsAdmittedAfterNineRoundTrips(t *testing.T) {
	t.Parallel()
	server := serverstest.Redis(t, servers.RedisOptions{})
	var c turns
	p := serverstest.NewRelayWith(t, server.Addr(), servers.RelayOptions{Serve: c.serve})
	other, g := before(t, server, setup{}), before(t, server, setup{upstream: p.Addr()})
	g.fenced(5) // now Redis has cached the scripts
	least := int64(100)
	for token := 6; token < 26 && least > 9; token += 2 { // a slow machine may cause more
		other.fenced(token)
		start := c.n.Load()
		g.fenced(token + 1)
		least = min(least, c.n.Load()-start)
	}
	if least > 9 {
		t.Errorf("an admission takes at least %d round trips, want 9", least)
	}
}

// turns counts how often clients of a relay have sent something after an answer came.
type turns struct {
	n        atomic.Int64
	answered atomic.Bool
}

func (c *turns) serve(r *servers.Relay, client, server net.Conn) {
	c.answered.Store(true)
	r.Pump(client, turning{server, c})
}

// turning is a connection to the server.
type turning struct {
	net.Conn
	c *turns
}

func (t turning) Write(b []byte) (int, error) {
	if t.c.answered.Swap(false) {
		t.c.n.Add(1)
	}
	return t.Conn.Write(b)
}

func (t turning) Read(b []byte) (int, error) {
	n, err := t.Conn.Read(b)
	if n > 0 {
		t.c.answered.Store(true)
	}
	return n, err
}
