package redisjournal_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/redisjournal"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

func TestALostAnswerIsUnknownToAPublishOnly(t *testing.T) {
	b := newBench(t, serverstest.Redis(t, servers.RedisOptions{}))
	c := b.lead(t, b.journal(t, redisjournal.Options{}), "orders")
	w := serverstest.NewRelay(t, b.Addr())
	j, err := redisjournal.Open(t.Context(), "redis://"+w.Addr()+"/0", redisjournal.Options{})
	must.Succeed(t, err)
	t.Cleanup(j.Close)
	publish(t, j, c, 1)
	w.LoseReply()
	if err := j.Publish(t.Context(), c, version(2, c)); !errors.Is(err, checkpoint.ErrUnknown) ||
		errors.Is(err, checkpoint.ErrTransient) {
		t.Errorf("publish: %v", err)
	}
	cp, _, err := j.TakeOver(t.Context(), c, nightly, -1) // a new connection
	if err != nil || cp.Version != 2 {
		t.Errorf("version %d is stored, want 2: %v", cp.Version, err)
	}
	w.LoseReply()
	if _, same, err := j.TakeOver(t.Context(), c, nightly, 2); same ||
		!errors.Is(err, checkpoint.ErrTransient) || errors.Is(err, checkpoint.ErrUnknown) {
		t.Errorf("take: same is %v, %v", same, err)
	}
}

func TestARedisThatIsDownIsTransient(t *testing.T) {
	b := newBench(t, serverstest.Redis(t, servers.RedisOptions{}))
	j := b.journal(t, redisjournal.Options{})
	c := b.lead(t, j, "orders")
	must.Succeed(t, b.Kill())
	late := b.journal(t, redisjournal.Options{}) // opens without a server
	for name, call := range map[string]func() error{
		"raise":   func() error { return j.Raise(t.Context(), c) },
		"publish": func() error { return late.Publish(t.Context(), c, version(1, c)) },
		"take":    func() error { _, _, err := j.TakeOver(t.Context(), c, nightly, 0); return err },
		"load":    func() error { _, err := j.Load(t.Context()); return err },
	} {
		if err := call(); !errors.Is(err, checkpoint.ErrTransient) {
			t.Errorf("%s: %v", name, err)
		}
	}
	j.Close()
	if err := j.Publish(t.Context(), c, version(1, c)); err == nil ||
		errors.Is(err, checkpoint.ErrTransient) {
		t.Errorf("a journal that is closed: %v", err)
	}
}

// A call to a server that hangs ends after a few seconds. What was sent may land when the server
// continues.
func TestAHungRedisDoesNotHoldACallForEver(t *testing.T) {
	b := newBench(t, serverstest.Redis(t, servers.RedisOptions{}))
	j := b.journal(t, redisjournal.Options{})
	c := b.lead(t, j, "orders")
	publish(t, j, c, 1)
	must.Succeed(t, b.Pause())
	ctx, cancel := context.WithTimeout(t.Context(), time.Second) // enough to send it
	defer cancel()
	err := j.Publish(ctx, c, version(2, c))
	if !errors.Is(err, checkpoint.ErrUnknown) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("publish: %v", err)
	}
	must.Succeed(t, b.Resume())
	if err := j.Publish(t.Context(), c, version(2, c)); err != nil &&
		!errors.Is(err, checkpoint.ErrConflict) {
		t.Errorf("the same again: %v", err)
	}
	if cp, _, err := j.TakeOver(t.Context(), c, nightly, 1); err != nil || cp.Version != 2 {
		t.Errorf("version %d: %v", cp.Version, err)
	}
}

func TestAFullRedisIsTransientAndWritesNothing(t *testing.T) {
	b := newBench(t, serverstest.Redis(t, servers.RedisOptions{}))
	j := b.journal(t, redisjournal.Options{})
	c := b.lead(t, j, "orders")
	publish(t, j, c, 1)
	b.do(t, "CONFIG", "SET", "maxmemory", "1")
	if err := j.Publish(t.Context(), c, version(2, c)); !errors.Is(err, checkpoint.ErrTransient) {
		t.Errorf("publish: %v", err)
	}
	b.do(t, "CONFIG", "SET", "maxmemory", "0")
	if cp, _, err := j.TakeOver(t.Context(), c, nightly, 0); err != nil || cp.Version != 1 {
		t.Errorf("version %d: %v", cp.Version, err)
	}
}

func TestBadInputIsRefused(t *testing.T) {
	b := newBench(t, serverstest.Redis(t, servers.RedisOptions{}))
	j := b.journal(t, redisjournal.Options{})
	c := b.lead(t, j, "orders")
	for _, name := range []checkpoint.Name{"", "a b", "a\n", "é", ".a"} {
		cp := version(1, c)
		cp.Task = name
		_, _, taken := j.TakeOver(t.Context(), c, name, 0)
		for _, err := range []error{j.Publish(t.Context(), c, cp), taken,
			j.Follow(t.Context(), name, nil)} {
			if !errors.Is(err, checkpoint.ErrBadName) {
				t.Errorf("%q: %v", name, err)
			}
		}
	}
	cp := version(1, c)
	cp.State = []byte("{")
	if err := j.Publish(t.Context(), c, cp); err == nil || errors.Is(err, checkpoint.ErrTransient) {
		t.Errorf("a state that is no JSON: %v", err)
	}
	if _, err := redisjournal.Open(t.Context(), "postgres://host",
		redisjournal.Options{}); err == nil {
		t.Error("another database's URL was taken")
	}
	replica := serverstest.Redis(t, servers.RedisOptions{Args: []string{"--cluster-enabled", "yes"}})
	_, err := redisjournal.Open(t.Context(), replica.URL(), redisjournal.Options{})
	if _, setup := errors.AsType[*fence.SetupError](err); !setup {
		t.Errorf("a member of a cluster: %v", err)
	}
}
