package redisguard

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/guard/guardtest"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// crowded is a guard with few places and a short grace.
func crowded(t *testing.T) *guarded {
	t.Helper()
	return before(t, serverstest.Redis(t, servers.RedisOptions{}), setup{
		limit: func(s *guard.Server) { s.MaxUnadmitted, s.Grace = 5, 100*time.Millisecond },
	})
}

func TestClientsWithoutATokenKeepNobodyOut(t *testing.T) {
	t.Parallel()
	g := crowded(t)
	for i := range 60 {
		r := g.raw()
		if i%3 > 0 {
			_, _ = r.conn.Write([]byte("PING\r\n"[:i%3*3]))
		}
	}
	// after any reply: a slow machine looks like a silent client
	r := g.claimAgain(5, time.Minute, "")
	r.send("RPUSH written 5\r\n")
	r.expect(":1")
	if n := g.Metric("ringfence_connections", "unadmitted"); n > 5 {
		t.Errorf("%v connections are not admitted, want at most 5", n)
	}
}

// The clients send commands all the time. Some read every answer, some read none.
func TestBusyClientsWithoutATokenKeepNobodyOut(t *testing.T) {
	t.Parallel()
	g := crowded(t)
	pipeline := []byte(strings.Repeat("COMMAND\r\nPING\r\n", 20))
	for i := range 20 {
		r := g.raw()
		go func() { // ends with its connection
			for range 100_000 {
				if _, err := r.conn.Write(pipeline); err != nil {
					return
				}
			}
		}()
		if i%2 == 0 {
			go func() { _, _ = r.r.WriteTo(discard{}) }()
		}
	}
	// after any reply: a slow machine looks like a silent client
	r := g.claimAgain(5, time.Minute, "")
	r.send("RPUSH written 5\r\n")
	r.expect(":1")
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }

func TestAnEvictedClientIsToldWhy(t *testing.T) {
	t.Parallel()
	g := before(t, serverstest.SharedRedis(t), setup{
		limit: func(s *guard.Server) { s.MaxUnadmitted, s.Grace = 1, time.Millisecond },
	})
	reader := g.raw()
	reader.send("PING\r\n")
	reader.expect("+PONG")
	next := g.raw()
	reader.expect(evictedLine)
	reader.ended()
	next.send("PING\r\n")
	next.expect("+PONG")
	g.AwaitMetric("ringfence_connections_ended_total", "evicted", 1)
}

func TestEachCommandRenewsTheIdleLimitOfAClientWithoutAToken(t *testing.T) {
	t.Parallel()
	g := before(t, serverstest.SharedRedis(t), setup{
		Options: Options{LoginTimeout: time.Hour, IdleTimeout: 3 * time.Second},
	})
	monitor := g.raw()
	for range 2 { // the client stays longer than two others that send only one command
		idle := g.raw()
		idle.send("PING\r\n")
		idle.expect("+PONG")
		told := make(chan string)
		go func() { told <- idle.reply() }()
		for ended := false; !ended; {
			monitor.send("INFO clients\r\n")
			monitor.expect("$")
			select {
			case why := <-told:
				ended = true
				if !strings.HasPrefix(why, "-ERR guard: no command for 3s") {
					t.Errorf("the idle client got %q", why)
				}
			default:
			}
		}
		idle.ended()
	}
	g.AwaitMetric("ringfence_connections_ended_total", "idle", 2)
}

// dialled returns how many connections the server has accepted since it started.
func (g *guarded) dialled() (n int) {
	g.t.Helper()
	info := g.direct().Info(g.t.Context(), "stats").Val()
	for line := range strings.Lines(info) {
		value, ok := strings.CutPrefix(strings.TrimSpace(line), "total_connections_received:")
		if ok {
			n, _ = strconv.Atoi(value)
		}
	}
	return n
}

func TestManyDeposedClientsCostTheServerNoConnection(t *testing.T) {
	t.Parallel()
	g := fresh(t)
	g.fenced(7)
	before := g.dialled()
	for i := range 100 {
		r := g.raw()
		if i%2 == 0 {
			r.send("FENCE orders 5\r\nSET a 1\r\n")
			r.expect("-STALETOKEN", "-STALETOKEN")
			r.ended()
			continue
		}
		r.send("HELLO 3 SETNAME fence.orders=5\r\nSET a 1\r\n")
		r.expect("-STALETOKEN", "-STALETOKEN")
		_ = r.conn.Close()
	}
	// this query's connection, and the guard's control connections
	if n := g.dialled() - before; n > 1+4 {
		t.Errorf("%d connections reached the server", n)
	}
	if n := g.Metric("ringfence_refusals_total", "stale"); n != 100 {
		t.Errorf("%v refusals are counted, want 100", n)
	}
}

func TestANewLeaderGetsInWhenEverySlotIsTaken(t *testing.T) {
	t.Parallel()
	g := before(t, serverstest.Redis(t, servers.RedisOptions{}), setup{
		limit: func(s *guard.Server) {
			s.MaxConnections, s.MaxUnadmitted, s.Grace = 3, 3, 50*time.Millisecond
		},
	})
	for range 3 {
		g.fenced(5)
	}
	for range 6 {
		g.raw()
	}
	r := g.fenced(7)
	r.send("RPUSH written 7\r\n")
	r.expect(":1")
}

func TestOneSessionTooManyIsRefusedWithinTheTimeOfAnAdmission(t *testing.T) {
	t.Parallel()
	g := before(t, serverstest.Redis(t, servers.RedisOptions{}), setup{
		Options: Options{
			Admission: &marks.Admission{Authority: marks.Unverified{}, Timeout: 2 * time.Second},
		},
		limit: func(s *guard.Server) { s.MaxConnections = 1 },
	})
	in, r := g.fenced(5), g.raw()
	r.send("FENCE orders 5\r\n")
	r.expect("-ERR guard: the guard has its 1 admitted sessions already")
	r.ended()
	g.AwaitMetric("ringfence_connections_ended_total", "full", 1)
	in.send("PING\r\n")
	in.expect("+PONG")
}

// A paused server answers nothing.
func TestAClaimIsAnsweredInTimeWhenTheServerIsSilent(t *testing.T) {
	t.Parallel()
	for name, words := range map[string]struct{ early, claim string }{
		"FENCE first":           {"", "FENCE orders 5\r\n"},
		"FENCE after a command": {"PING\r\n", "FENCE orders 5\r\n"},
		"SETNAME":               {"PING\r\n", "CLIENT SETNAME fence.orders=5\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			g := before(t, serverstest.Redis(t, servers.RedisOptions{}), setup{Options: Options{
				Admission: &marks.Admission{Authority: marks.Unverified{}, Timeout: time.Second},
			}})
			r := g.raw()
			r.send(words.early)
			if words.early != "" {
				r.expect("+PONG")
			}
			must.Succeed(t, g.server.Pause())
			r.send(words.claim)
			r.expect("-REVOKE")
			must.Succeed(t, g.server.Resume())
		})
	}
}

func TestACommandWithoutATokenTimesOutWhenTheServerIsSilent(t *testing.T) {
	t.Parallel()
	g := before(t, serverstest.Redis(t, servers.RedisOptions{}), setup{
		Options: Options{LoginTimeout: 2 * time.Second},
	})
	r := g.raw()
	r.send("PING\r\n")
	r.expect("+PONG")
	must.Succeed(t, g.server.Pause())
	r.send("INFO\r\n")
	r.expect("-ERR guard: redis has not answered for 2s")
	r.ended()
	must.Succeed(t, g.server.Resume())
}

// With io-threads, a busy server may not even answer BUSY. The scripts are those of an older
// leader, and together they run longer than an admission may take.
func TestEveryClaimIsAnsweredInTimeWhileHeavyScriptsRun(t *testing.T) {
	t.Parallel()
	server := serverstest.Redis(t, servers.RedisOptions{
		Args: []string{"--busy-reply-threshold", "20", "--io-threads", "4",
			"--io-threads-do-reads", "yes"},
	})
	const timeout = 2 * time.Second
	g := before(t, server, setup{Options: Options{
		Admission: &marks.Admission{Authority: marks.Unverified{}, Timeout: timeout},
	}})
	script := array("EVAL", `local t = redis.call('TIME') local from = t[1] * 1000000 + t[2]
		repeat t = redis.call('TIME') until t[1] * 1000000 + t[2] - from > 700000
		return redis.call('RPUSH', 'written', '5')`, "0")
	var older []*raw
	for range 8 {
		older = append(older, g.fenced(5))
	}
	for _, old := range older {
		old.send(strings.Repeat(script, 10))
	}
	g.busy()
	var claims []*raw
	begin := time.Now()
	for range 12 {
		r := g.raw()
		r.send("FENCE orders 6\r\n")
		claims = append(claims, r)
	}
	for _, r := range claims {
		if reply := r.reply(); reply != "+OK\r\n" && !strings.HasPrefix(reply, "-REVOKE") {
			t.Errorf("got %q", reply)
		}
	}
	if d := time.Since(begin); d > 10*timeout {
		t.Errorf("the last claim was answered after %v", d)
	}
}

// stalling is a guard that soon notices clients that do not read.
type stalling struct {
	*guarded
	liveness *guardtest.Liveness
}

func newStalling(t *testing.T, with setup) stalling {
	t.Helper()
	var g *guarded
	liveness := guardtest.NewLiveness(func(ctx context.Context, s marks.SessionID) (bool, error) {
		c := g.direct()
		defer c.Close()
		list, err := c.Do(ctx, "CLIENT", "LIST", "ID", s.ID).Text()
		return strings.Contains(list, fmt.Sprintf("id=%d ", s.ID)), err
	})
	with.Options = Options{Sessions: liveness, Stall: 50 * time.Millisecond}
	g = before(t, serverstest.Redis(t, servers.RedisOptions{}), with)
	big := strings.Repeat("x", 10_000_000)
	must.Succeed(t, g.direct().Set(t.Context(), "big", big, 0).Err())
	return stalling{g, liveness}
}

// fillAndStop opens a session whose client requests large values and reads none. It returns when
// the guard can write no more to it.
func (g stalling) fillAndStop(token int) *raw {
	g.t.Helper()
	r := g.fenced(token)
	r.send(strings.Repeat("GET big\r\n", 3))
	g.liveness.Await(g.t)
	return r
}

func TestARevokedClientThatNeverReadsReleasesItsSlot(t *testing.T) {
	t.Parallel()
	g := newStalling(t, setup{limit: func(s *guard.Server) { s.MaxConnections = 1 }})
	g.fillAndStop(5)
	r := g.fenced(7)
	r.send("RPUSH written 7\r\n")
	r.expect(":1")
	g.AwaitMetric("ringfence_connections_ended_total", "stuck", 1)
}

func TestALiveClientThatReadsLateGetsEverything(t *testing.T) {
	t.Parallel()
	g := newStalling(t, setup{})
	r := g.fillAndStop(5)
	_, err := r.r.Discard(3*len("$10000000\r\n\r\n") + 30_000_000)
	must.Succeed(t, err)
	r.send("PING\r\n")
	r.expect("+PONG")
}

func TestAShutdownDoesNotWaitForAClientThatNeverReads(t *testing.T) {
	t.Parallel()
	g := newStalling(t, setup{drain: time.Minute})
	r := g.fillAndStop(5)
	begin := time.Now()
	must.Succeed(t, g.direct().Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal").Err())
	early := g.raw() // it has no token, requests large replies and reads nothing
	early.send(strings.Repeat(largeReply, 10))
	g.AwaitMetric("ringfence_connections", "login", 1)
	g.Stop()
	if d := time.Since(begin); d > 30*time.Second {
		t.Errorf("the shutdown took %v", d)
	}
	_, _ = r.conn.Close(), early.conn.Close()
}
