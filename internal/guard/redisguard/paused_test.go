package redisguard

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// hasty starts a guard with this timeout for an admission.
func hasty(t *testing.T, timeout time.Duration, args ...string) *guarded {
	t.Helper()
	return before(t, serverstest.Redis(t, servers.RedisOptions{Args: args}), setup{
		Options: Options{
			Admission: &marks.Admission{Authority: marks.Unverified{}, Timeout: timeout},
		},
	})
}

// operator runs a command on the server, not through the guard.
func (g *guarded) operator(text string) {
	g.t.Helper()
	if err := g.direct().Do(g.t.Context(), anys(text)...).Err(); err != nil {
		g.t.Fatalf("%s: %v", text, err)
	}
}

// refusesEveryClaim fails the test unless each form of a claim is refused with all of these texts.
func (g *guarded) refusesEveryClaim(words ...string) {
	g.t.Helper()
	var all []*raw
	for _, claim := range []string{"FENCE orders 6\r\n", "CLIENT SETNAME fence.orders.6\r\n",
		"HELLO 3 SETNAME fence.orders.6\r\n"} {
		r := g.raw()
		r.send(claim)
		all = append(all, r)
	}
	for _, r := range all {
		got := r.reply()
		for _, word := range append(words, "-REVOKE ", `of "orders" can be admitted`,
			"try again with the same token") {
			if !strings.Contains(got, word) {
				g.t.Errorf("the client got %q, which does not say %q", got, word)
			}
		}
	}
}

func TestWhileAllOfRedisIsPausedANewcomerIsToldSo(t *testing.T) {
	t.Parallel()
	g := hasty(t, time.Second)
	g.fenced(5)
	g.operator("CLIENT PAUSE 600000 ALL")
	g.refusesEveryClaim("Redis answers nobody", "paused (CLIENT PAUSE)",
		"ends by its own time only")
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := New(Options{Store: g.store, Admission: &marks.Admission{}}).Ready(ctx); err == nil ||
		!strings.Contains(err.Error(), "paused (CLIENT PAUSE)") {
		t.Errorf("not ready: %v", err)
	}
	if n := g.Metric("ringfence_refusals_total", "unrevoked"); n != 3 {
		t.Errorf("%v refusals are counted, want 3", n)
	}
	if err := g.server.Kill(); err != nil {
		t.Fatal(err)
	}
}

// Commands that only read still run. A client that waits is admitted as soon as the pause ends.
func TestWhileWritesArePausedANewcomerIsToldSoAndTheLeaderKeepsReading(t *testing.T) {
	t.Parallel()
	g := hasty(t, 8*time.Second)
	leader, patient := g.fenced(5), before(t, g.server, setup{})
	g.operator("CLIENT PAUSE 600000 WRITE")
	g.refusesEveryClaim("runs no scripts now", "writes are paused (CLIENT PAUSE)", "CLIENT UNPAUSE")
	leader.says("GET a\r\nPING\r\nINFO server\r\nSCRIPT KILL\r\n", "$-1", "+PONG", "$", "-NOTBUSY")
	g.raw().says("PING\r\nINFO server\r\nSCRIPT KILL\r\n", "+PONG", "$", "-NOTBUSY")
	leader.send("CLIENT UNPAUSE\r\n")
	leader.expect("-NOTALLOWED CLIENT UNPAUSE")
	newer := patient.raw()
	newer.send("FENCE orders 7\r\nRPUSH written 7\r\n")
	patient.AwaitMetric("ringfence_connections", "login", 1)
	g.operator("CLIENT UNPAUSE")
	newer.expect("+OK", ":1")
	leader.expect("-STALETOKEN")
}

func TestWhileAScriptKeepsRedisBusyANewcomerIsToldSoAndCanEndIt(t *testing.T) {
	t.Parallel()
	g := hasty(t, time.Second, "--busy-reply-threshold", "20")
	leader := g.fenced(5)
	leader.send(array("EVAL", "while true do end", "0"))
	g.busy()
	g.refusesEveryClaim("Redis answers nobody", "BUSY ",
		"SCRIPT KILL ends a script that has written nothing, and needs no token")
	r := g.raw()
	r.send("SCRIPT KILL\r\n")
	r.expect("+OK")
	leader.expect("-ERR")
	g.claimAgain(7, time.Minute, "-REVOKE ")
	leader.expect("-STALETOKEN")
}
