package redisjournal_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/checkpointtest"
	"github.com/ringfence/ringfence/checkpoint/redisjournal"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/marks/redismarks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

func TestMain(m *testing.M) { os.Exit(serverstest.RunMain(m)) }

// trusting is an Authority that confirms every raise, as a coordinator with this leader would.
type trusting struct{ marks.Unverified }

func (trusting) Verifies() bool { return true }

func (trusting) Confirm(_ context.Context, c fence.Claim, _ marks.Mark) (fence.Claim, error) {
	return c, nil
}

// bench is a server with ringfence installed, and a connection with which the test inspects and
// changes it.
type bench struct {
	*servers.Redis
	admin *driver.Client
	next  fence.Token // the last token that was won
}

func newBench(t *testing.T, server *servers.Redis) *bench {
	t.Helper()
	b := &bench{Redis: server, next: 1 << 60,
		admin: driver.NewClient(&driver.Options{Addr: server.Addr(), Protocol: 2})}
	t.Cleanup(func() { _ = b.admin.Close() })
	b.do(t, "FLUSHALL")
	must.Succeed(t, redismarks.Install(t.Context(), server.URL()))
	return b
}

// durable starts a server that writes to disk before it acknowledges.
func durable(t *testing.T) *servers.Redis {
	return serverstest.Redis(t, servers.RedisOptions{Args: []string{"--appendonly", "yes",
		"--appendfsync", "always"}})
}

func (b *bench) do(t *testing.T, args ...any) any {
	t.Helper()
	v, err := b.admin.Do(t.Context(), args...).Result()
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return v
}

func (b *bench) journal(t *testing.T, o redisjournal.Options) *redisjournal.Journal {
	t.Helper()
	if o.Raiser == nil {
		o.Raiser = redismarks.Raiser{URL: b.URL(), Authority: trusting{}}
	}
	j, err := redisjournal.Open(t.Context(), b.URL(), o)
	must.Succeed(t, err)
	t.Cleanup(j.Close)
	return j
}

// lead makes a new leader and raises the mark through a journal.
func (b *bench) lead(t testing.TB, j checkpoint.Journal, r fence.Resource) fence.Claim {
	t.Helper()
	b.next++
	c := fence.Claim{Resource: r, Token: b.next, Issuer: elector.Unverified, Holder: "host"}
	must.Succeed(t, j.Raise(t.Context(), c))
	return c
}

func TestTheJournalKeepsTheContract(t *testing.T) {
	server := durable(t)
	checkpointtest.Run(t, func(t *testing.T) checkpointtest.Fixture {
		const limit = 64 << 10
		b := newBench(t, server)
		j := b.journal(t, redisjournal.Options{Limit: limit})
		return checkpointtest.Fixture{
			Journal: j, Second: b.journal(t, redisjournal.Options{Limit: limit}), Limit: limit,
			Lead: func(t testing.TB, r fence.Resource) fence.Claim { return b.lead(t, j, r) },
		}
	})
}

const nightly checkpoint.Name = "nightly"

// version returns a checkpoint as the claim's leader publishes it.
func version(n int64, c fence.Claim) checkpoint.Checkpoint {
	return checkpoint.Checkpoint{
		Task: nightly, Resource: c.Resource, Version: n, Nonce: c.Token.String(), Token: c.Token,
		Holder: c.Holder,
		Run:    1, Round: n, Rounds: checkpoint.Forever, Steps: []string{"only"},
		Status: checkpoint.Running, State: []byte(`{}`),
	}
}

func publish(t *testing.T, j checkpoint.Journal, c fence.Claim, n int64) {
	t.Helper()
	must.Succeed(t, j.Publish(t.Context(), c, version(n, c)))
}

// patiently repeats a call as long as the journal returns ErrTransient.
func patiently(t *testing.T, call func() error) error {
	t.Helper()
	for start := time.Now(); ; {
		err := call()
		if !errors.Is(err, checkpoint.ErrTransient) {
			return err
		}
		if time.Since(start) > 20*time.Second {
			t.Fatal(err)
		}
	}
}
