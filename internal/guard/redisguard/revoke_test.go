package redisguard

import (
	"context"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/marks/redismarks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/poll"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// Whatever state the older leader's session is in, nothing of it takes effect once the newer leader
// is admitted, and the older leader is told why.
func TestTheOlderLeaderIsEndedInEveryState(t *testing.T) {
	t.Parallel()
	g := fresh(t)
	token := 5
	for state, c := range map[string]struct {
		before  string
		answers []string // to the commands of before
		after   string   // sent once the newer leader is admitted
	}{
		"idle": {"RPUSH written before\r\n", []string{":"}, "RPUSH written after\r\n"},
		"in MULTI": {"MULTI\r\nRPUSH written after\r\n",
			[]string{"+OK", "+QUEUED"}, "EXEC\r\n"},
		"in BLPOP": {"BLPOP queue 0\r\n", nil, ""},
		"subscribed": {"HELLO 3\r\nSUBSCRIBE ch\r\n", []string{"%", ">"},
			"RPUSH written after\r\n"},
		"in WAIT":   {"WAIT 1 0\r\nRPUSH written after\r\n", nil, ""},
		"half sent": {"*3\r\n$5\r\nRPUSH\r\n$7\r\nwritten\r\n$5\r\naft", nil, "er\r\n"},
		"tracking": {"HELLO 3\r\nCLIENT TRACKING ON\r\n", []string{"%", "+OK"},
			"RPUSH written after\r\n"},
		"replies off": {"CLIENT REPLY OFF\r\nRPUSH written before\r\n", nil,
			"RPUSH written after\r\n"},
		"much to read": {"SET big " + strings.Repeat("x", 8000) + "\r\n", []string{"+OK"},
			"RPUSH written after\r\n"},
	} {
		t.Run(state, func(t *testing.T) {
			g.t = t
			old := g.fenced(token)
			old.send(c.before)
			old.expect(c.answers...)
			if c.answers == nil {
				g.blocked(state)
			}
			fresh := g.fenced(token + 1)
			if c.after != "" {
				_, _ = old.conn.Write([]byte(c.after))
			}
			old.expect("-STALETOKEN stale token: ")
			old.ended()
			fresh.send("RPUSH queue for-the-newer\r\nLPOP queue\r\n")
			fresh.expect(":1", "$13\r\nfor-the-newer")
			token += 2
		})
	}
	g.t = t
	if slices.Contains(g.written(), "after") {
		t.Errorf("written: %v", g.written())
	}
}

// blocked waits until a client is in this state at the server, beside the guard's watch. Only some
// states can be observed from outside.
func (g *guarded) blocked(state string) {
	g.t.Helper()
	if state != "in BLPOP" && state != "in XREAD" && state != "in WAIT" {
		return
	}
	g.awaitBlocked()
}

// A paused leader resumes with a pipeline in its own buffers and in the guard's.
func TestQueuedBytesOfAPausedLeaderAreNotExecuted(t *testing.T) {
	t.Parallel()
	g := fresh(t)
	old := g.fenced(5)
	fresh := g.fenced(6)
	_, _ = old.conn.Write([]byte(strings.Repeat("RPUSH written 5\r\n", 10_000)))
	old.expect("-STALETOKEN")
	fresh.send("LLEN written\r\n")
	fresh.expect(":0")
}

// Redis is paused while the older leader sends a full pipeline, so all of it is in Redis's socket
// when Redis resumes.
func TestCommandsOfTheOlderLeaderThatRedisHasNotReadAreNotExecuted(t *testing.T) {
	t.Parallel()
	g := fresh(t)
	old := g.fenced(5)
	must.Succeed(t, g.server.Pause())
	old.send(strings.Repeat("RPUSH written 5\r\n", 50_000))
	newer := g.raw()
	newer.send("FENCE orders 6\r\nRPUSH written 6\r\n")
	must.Succeed(t, g.server.Resume())
	newer.expect("+OK", ":")
	list := g.written()
	if i := slices.Index(list, "6"); i != len(list)-1 {
		t.Errorf("%d writes of the older leader came after one of the newer", len(list)-1-i)
	}
}

func TestTheNewerLeaderWaitsUntilALongScriptEnds(t *testing.T) {
	t.Parallel()
	g := fresh(t, "--busy-reply-threshold", "20")
	old := g.fenced(5)
	// The script runs for about 2 s and then writes.
	old.send(array("EVAL", `local t = redis.call('TIME') local from = t[1] * 1000000 + t[2]
		repeat t = redis.call('TIME') until t[1] * 1000000 + t[2] - from > 2000000
		return redis.call('RPUSH', 'written', '5')`, "0"))
	g.busy()
	newer := g.raw()
	newer.send("FENCE orders 6\r\nRPUSH written 6\r\n")
	newer.expect("+OK", ":2")
	if list := g.written(); !slices.Equal(list, []string{"5", "6"}) {
		t.Errorf("written: %v", list)
	}
}

// busy waits until a script blocks the server.
func (g *guarded) busy() {
	g.t.Helper()
	c := g.direct()
	if !poll.Until(20*time.Second, func() bool { return c.Ping(g.t.Context()).Err() != nil }) {
		g.t.Fatal("no script is running")
	}
}

func TestANewerLeaderIsRefusedWhenTheOlderCannotBeEndedInTime(t *testing.T) {
	t.Parallel()
	server := serverstest.Redis(t, servers.RedisOptions{
		Args: []string{"--busy-reply-threshold", "20"},
	})
	g := before(t, server, setup{})
	hasty := before(t, server, setup{Options: Options{
		Admission: &marks.Admission{Authority: marks.Unverified{}, Timeout: 400 * time.Millisecond},
	}})
	old, newer := g.fenced(5), hasty.raw()
	old.send(array("EVAL",
		`redis.call('SET', 'spoilt', '1') while redis.call('EXISTS', 'spoilt') == 1 do end`, "0"))
	g.busy()
	newer.send("FENCE orders 6\r\nRPUSH written 6\r\n")
	newer.expect("-REVOKE", "-REVOKE")
	newer.ended()
	must.Succeed(t, g.server.Kill())
}

// FLUSHALL bypasses the guard: no record of the older session is left, and the session lives.
func TestAfterALossTheOlderSessionHasEndedBeforeTheNewerIsAdmitted(t *testing.T) {
	t.Parallel()
	g := before(t, serverstest.Redis(t, servers.RedisOptions{}), setup{
		Options: Options{Admission: &marks.Admission{Authority: agreeing{}}},
		store:   redismarks.Options{Coordinated: true},
	})
	old := g.fenced(5)
	must.Succeed(t, g.direct().FlushAll(t.Context()).Err())
	old.send("RPUSH written 5\r\n")
	old.expect(":1")
	must.Succeed(t, g.leader(6).RPush(t.Context(), "written", "6").Err())
	_, _ = old.conn.Write([]byte("RPUSH written 5\r\n"))
	// "" when it ended before the mark was raised again
	if reply := old.reply(); reply != "" && !strings.HasPrefix(reply, "-STALETOKEN") {
		t.Errorf("the older leader got %q", reply)
	}
	if list := g.written(); !slices.Equal(list, []string{"5", "6"}) {
		t.Errorf("written: %v", list)
	}
	raiser := redismarks.NewRaiser("redis://" + g.Addr)
	must.Succeed(t, raiser.Raise(t.Context(), fence.Claim{Resource: "orders", Token: 7}))
}

// agreeing is an authority that confirms every raise.
type agreeing struct{ marks.Unverified }

func (agreeing) Confirm(_ context.Context, c fence.Claim, _ marks.Mark) (fence.Claim, error) {
	return c, nil
}

func TestAfterACrashOfRedisOnlyTheMarkOrANewerTokenGetsIn(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"with AOF":    {"--appendonly", "yes", "--appendfsync", "always"},
		"without AOF": nil,
	} {
		t.Run(name, func(t *testing.T) {
			g := fresh(t, args...)
			old := g.fenced(5)
			must.Succeed(t, g.server.Kill())
			old.ended() // no newer leader ended it, so the guard gives no reason
			must.Succeed(t, g.server.Start(t.Context()))
			g.reachable()
			stale := g.raw()
			stale.send("FENCE orders 4\r\n")
			if reply := stale.reply(); !strings.HasPrefix(reply, "-STALETOKEN") {
				t.Errorf("an older token: %q", reply)
			}
			same := g.raw()
			same.send("FENCE orders 5\r\nRPUSH written 5\r\n")
			if args == nil {
				same.expect("-NOTINSTALLED", "-NOTINSTALLED")
				return
			}
			same.expect("+OK", ":1")
		})
	}
}

// reachable waits until the control connection works again; the driver dials once a second.
func (g *guarded) reachable() {
	g.t.Helper()
	if !poll.Until(30*time.Second, func() bool {
		err := g.store.Probe(g.t.Context())
		return err == nil || errors.Is(err, fence.ErrNotInstalled)
	}) {
		g.t.Fatal("the guard did not reconnect")
	}
}

func TestRedisCLIIsFencedAndToldWhy(t *testing.T) {
	t.Parallel()
	g := fresh(t)
	g.fenced(6)
	host, port, _ := strings.Cut(g.Addr, ":")
	run := func(input string) string {
		cmd := exec.CommandContext(t.Context(), "redis-cli", "-h", host, "-p", port)
		cmd.Stdin = strings.NewReader(input)
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		return string(out)
	}
	out := run("FENCE orders 5\nSET a 1\n")
	if !strings.Contains(out, "STALETOKEN stale token: 5") {
		t.Errorf("stale: %s", out)
	}
	if out := run("SET a 1\n"); !strings.Contains(out, "NOTOKEN SET needs a token") {
		t.Errorf("unfenced: %s", out)
	}
	out = run("FENCE orders 6\nSET a 1\nGET a\nFLUSHALL\nGET a\n")
	if !strings.Contains(out, "OK\nOK\n1\nNOTALLOWED") {
		t.Errorf("fenced: %s", out)
	}
}
