package redisguard

import (
	"bufio"
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/marks/redismarks"
	"github.com/ringfence/ringfence/internal/refusal"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// elected is an Authority that knows who leads.
type elected struct {
	marks.Unverified
	leader atomic.Int64
}

func (*elected) Verifies() bool { return true }

func (e *elected) Verify(ctx context.Context, all []marks.Presented) ([]fence.Claim, error) {
	claims, err := e.Unverified.Verify(ctx, all)
	for _, c := range claims {
		if int64(c.Token) != e.leader.Load() {
			err = refusal.NotLeader(c, "another one leads")
		}
	}
	return claims, err
}

func (e *elected) Confirm(ctx context.Context, c fence.Claim, _ marks.Mark) (fence.Claim, error) {
	_, err := e.Verify(ctx, marks.Present(c))
	return c, err
}

// small starts a guard for a server that takes only 24 clients.
func small(t *testing.T, by marks.Authority) *guarded {
	t.Helper()
	g := before(t, serverstest.Redis(t, servers.RedisOptions{Args: []string{"--maxclients", "24"}}),
		setup{
			store:   redismarks.Options{Reserved: true},
			Options: Options{Admission: &marks.Admission{Authority: by}},
		})
	g.AwaitMetric("ringfence_connections_limit", "login", 3)
	return g
}

// fillServer connects clients past the guard until the server takes no more.
func (g *guarded) fillServer() {
	g.t.Helper()
	for {
		c, err := net.Dial("tcp", g.server.Addr())
		must.Succeed(g.t, err)
		g.t.Cleanup(func() { _ = c.Close() })
		_, _ = c.Write([]byte("PING\r\n"))
		answer, _ := bufio.NewReader(c).ReadString('\n')
		if !strings.HasPrefix(answer, "+PONG") {
			return
		}
	}
}

func TestClientsWithoutATokenLeaveRoomOnASmallServer(t *testing.T) {
	t.Parallel()
	g := small(t, marks.Unverified{})
	for range 60 {
		g.raw().send("PING\r\n")
	}
	r := g.claimAgain(5, time.Minute, "")
	r.send("RPUSH written 5\r\n")
	r.expect(":1")
}

func TestOlderSessionsLeaveRoomOnASmallServer(t *testing.T) {
	t.Parallel()
	g := small(t, marks.Unverified{})
	for range 24 {
		r := g.raw()
		r.send("FENCE orders 5\r\n")
		go func() { _, _ = r.r.ReadByte() }() // the last ones are not admitted
	}
	g.AwaitMetric("ringfence_connections", "admitted", 24-2*3-6)
	r := g.claimAgain(6, time.Minute, "")
	r.send("RPUSH written 6\r\n")
	r.expect(":1")
}

func TestOlderSessionsEndForTheLeaderWhomAFullServerRefuses(t *testing.T) {
	t.Parallel()
	by := &elected{}
	by.leader.Store(5)
	endsOlder(t, small(t, by), by)
}

// With TLS a full server ends the connection without a word.
func TestOlderSessionsEndForTheLeaderWhomAFullServerRefusesInTLS(t *testing.T) {
	t.Parallel()
	by := &elected{}
	by.leader.Store(5)
	e := encryptedRedis(t, "no")
	g := before(t, e.server, setup{
		url:     "rediss://" + e.address + "?sslrootcert=" + e.authority.File,
		store:   redismarks.Options{Reserved: true},
		Options: Options{Admission: &marks.Admission{Authority: by}},
	})
	must.Succeed(t, g.direct().ConfigSet(t.Context(), "maxclients", "24").Err())
	endsOlder(t, g, by)
}

func endsOlder(t *testing.T, g *guarded, by *elected) {
	t.Helper()
	old := g.fenced(5)
	g.fillServer()
	by.leader.Store(6)
	r := g.raw()
	r.send("FENCE orders 6\r\n")
	r.expect("+OK")
	r.send("RPUSH written 6\r\n")
	r.expect(":1")
	old.expect("-STALETOKEN")
	old.ended()
}

// The driver of a raiser says HELLO first, which has to claim.
func TestARaiserRaisesThroughAGuardOfAFullServer(t *testing.T) {
	t.Parallel()
	by := &elected{}
	by.leader.Store(5)
	g := small(t, by)
	old := g.fenced(5)
	g.fillServer()
	by.leader.Store(6)
	r := redismarks.NewRaiser("redis://" + g.Addr)
	must.Succeed(t, r.Raise(t.Context(), fence.Claim{Resource: "orders", Token: 6}))
	old.expect("-STALETOKEN")
}

func TestAFullServerRefusesWhomTheCoordinatorDoesNotConfirm(t *testing.T) {
	t.Parallel()
	by := &elected{}
	by.leader.Store(5)
	g := small(t, by)
	leader := g.fenced(5)
	g.fillServer()
	for words, want := range map[string]string{
		"PING\r\n": string(lineOf(errFull)), "FENCE orders 7\r\n": "-NOTLEADER",
	} {
		r := g.raw()
		r.send(words)
		r.expect(want)
		r.ended()
	}
	g.AwaitMetric("ringfence_connections_ended_total", "server_full", 1)
	leader.send("RPUSH written 5\r\n")
	leader.expect(":1")
}

// Without a coordinator any client could invent the token, so no session is ended for it.
func TestAFullServerRefusesEveryClaimWithoutACoordinator(t *testing.T) {
	t.Parallel()
	g := small(t, marks.Unverified{})
	leader := g.fenced(5)
	g.fillServer()
	for _, words := range []string{"FENCE orders 7\r\n", "HELLO 3 SETNAME fence.orders=7\r\n"} {
		r := g.raw()
		r.send(words)
		r.expect(string(lineOf(errFull)))
		_ = r.conn.Close()
	}
	leader.send("RPUSH written 5\r\n")
	leader.expect(":1")
}
