package tasks

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/cmd/leader/internal/stores"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks/redismarks"
	"github.com/ringfence/ringfence/internal/settings"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// inRedis returns a bench with its own Redis as the journal.
func inRedis(t *testing.T, steps string) (*bench, *driver.Client) {
	t.Helper()
	b := newBench(t, steps)
	server := serverstest.Redis(t, servers.RedisOptions{})
	must.Succeed(t, redismarks.Install(t.Context(), server.URL()))
	o, err := driver.ParseURL(server.URL())
	must.Succeed(t, err)
	db := driver.NewClient(o)
	t.Cleanup(func() { _ = db.Close() })
	b.stores = stores.All
	b.env = append(b.env, "LEADER_STORES="+server.URL())
	return b, db
}

func TestRedisCommandsRunUnderTheToken(t *testing.T) {
	b, db := inRedis(t, `
state: {n: 1}
steps:
  - {name: one, redis: [INCRBY, sent, 10]}
  - {name: list, redis: [[RPUSH, l, 007, "x y"], [INCR, sent]]}
`)
	b.run().exits(cli.Done)
	sent, list := db.Get(t.Context(), "sent").Val(), db.LRange(t.Context(), "l", 0, -1).Val()
	if sent != "11" || strings.Join(list, "|") != "007|x y" {
		t.Errorf("sent is %s, the list %q", sent, list)
	}
	if cp := b.shown(); cp.Status != checkpoint.Done || string(cp.State) != `{"n":1}` {
		t.Errorf("got %+v, state %s", cp, cp.State)
	}
}

func TestACommandThatRedisRefusesFailsTheStep(t *testing.T) {
	b, db := inRedis(t, "retry: {attempts: 2, backoff: 1ms}\nsteps: [{name: s, redis: [[INCR, "+
		"tries], [INCR, text]]}]\n")
	db.Set(t.Context(), "text", "x", 0)
	b.run().exits(cli.Error)
	if f := stopped(t, b); !strings.Contains(f.Message, "command 2, INCR: ") ||
		db.Get(t.Context(), "tries").Val() != "2" {
		t.Errorf("got %q after %s tries", f.Message, db.Get(t.Context(), "tries").Val())
	}
}

// A newer leader has raised the mark in the middle of the term, so the step must not run under the
// old token.
func TestStaleRedisStepIsNotRun(t *testing.T) {
	b, db := inRedis(t, "steps: [{name: wait, run: 'echo began; while [ ! -e go ]; do sleep 0.02; "+
		"done'}, {name: s, redis: [INCR, n]}]\n")
	l := b.run()
	l.out.Await(t, "began")
	issuer, err := l.client.Issuer(t.Context())
	must.Succeed(t, err)
	url := settings.Lookup(b.env, "LEADER_STORES")
	newer := fence.Claim{Resource: "orders", Token: 1 << 60, Issuer: issuer, Holder: "newer"}
	must.Succeed(t, redismarks.NewRaiser(url).Raise(t.Context(), newer))
	b.touch("go")
	l.log.Await(t, "stale token")
	l.signals <- syscall.SIGTERM
	l.exits(128 + 15)
	if n := db.Exists(t.Context(), "n").Val(); n != 0 {
		t.Error("the step has run")
	}
}

// Redis is restarted without its data. The leader raises its mark again and continues, and that
// does not count as an attempt.
func TestRedisStepSurvivesARestartOfRedis(t *testing.T) {
	b := newBench(t, "steps: [{name: wait, run: 'echo began; while [ ! -e go ]; do sleep 0.02; "+
		"done'}, {name: s, redis: [INCR, n]}]\n")
	server := serverstest.Redis(t, servers.RedisOptions{})
	must.Succeed(t, redismarks.Install(t.Context(), server.URL()))
	b.stores = stores.All
	b.env = append(b.env, "LEADER_REDIS="+server.URL()) // the journal is in memory
	l := b.run()
	l.out.Await(t, "began")
	must.Succeed(t, server.Kill())
	b.touch("go")
	l.log.Await(t, "Redis could not run the step")
	must.Succeed(t, server.Start(t.Context()))
	l.exits(cli.Done)
}

func TestRedisStepHasATimeout(t *testing.T) {
	b := newBench(t, "steps: [{name: wait, run: 'echo began; while [ ! -e go ]; do sleep 0.02; "+
		"done'}, {name: s, timeout: 300ms, redis: [INCR, n]}]\n")
	server := serverstest.Redis(t, servers.RedisOptions{})
	must.Succeed(t, redismarks.Install(t.Context(), server.URL()))
	b.stores = stores.All
	b.env = append(b.env, "LEADER_REDIS="+server.URL())
	l := b.run()
	l.out.Await(t, "began")
	must.Succeed(t, server.Pause())
	start := time.Now()
	b.touch("go")
	l.exits(cli.Error)
	if took := time.Since(start); !strings.Contains(b.saved().Failure.Message, "timeout of 300ms") ||
		took > 20*time.Second {
		t.Errorf("got %+v after %s", b.saved().Failure, took)
	}
	must.Succeed(t, server.Resume())
}

// The leader raises the mark in Redis when it takes over, not at its first Redis step. Otherwise
// Redis would accept a deposed leader's commands until then.
func TestMarkIsRaisedInRedisAtTheTakeover(t *testing.T) {
	b := newBench(t, "steps: [{name: wait, run: 'echo token=$RINGFENCE_TOKEN; while [ ! -e go ]; "+
		"do sleep 0.02; done'}, {name: s, redis: [INCR, n]}]\n")
	server := serverstest.Redis(t, servers.RedisOptions{})
	b.stores = stores.All
	b.env = append(b.env, "LEADER_REDIS="+server.URL())
	l := b.run()
	l.out.Await(t, "token=1")
	issuer, err := l.client.Issuer(t.Context())
	must.Succeed(t, err)
	l.depose()
	l.out.Await(t, "token=2")
	db, err := redismarks.Connect(server.URL(), "late")
	must.Succeed(t, err)
	defer db.Close()
	_, err = redismarks.Run(t.Context(), db,
		fence.Claim{Resource: "orders", Token: 1, Issuer: issuer, Holder: "late"}, []any{"INCR", "n"})
	if !errors.Is(err, fence.ErrStale) {
		t.Errorf("a deposed leader's command: %v", err)
	}
	b.touch("go")
	l.exits(cli.Done)
	if n := db.Get(t.Context(), "n").Val(); n != "1" {
		t.Errorf("n is %s", n)
	}
}
