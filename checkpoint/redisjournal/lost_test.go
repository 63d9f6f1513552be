package redisjournal_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/redisjournal"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
	"github.com/ringfence/ringfence/store/redisstore"
)

// Redis is killed at random while a leader publishes, and started again. With appendfsync always
// nothing acknowledged is lost, and the leader continues after it has raised its mark again.
func TestNothingPublishedIsLostWhenRedisIsKilled(t *testing.T) {
	b := newBench(t, durable(t))
	j := b.journal(t, redisjournal.Options{})
	c := b.lead(t, j, "orders")
	acknowledged := int64(0)
	for range 3 {
		publish(t, j, c, acknowledged+1) // or the server may be gone before the first
		acknowledged++
		killed := make(chan error, 1)
		time.AfterFunc(rand.N(100*time.Millisecond), func() { killed <- b.Kill() })
		var err error
		for err == nil {
			if err = j.Publish(t.Context(), c, version(acknowledged+1, c)); err == nil {
				acknowledged++
			}
		}
		if !errors.Is(err, checkpoint.ErrUnknown) && !errors.Is(err, checkpoint.ErrTransient) {
			t.Fatal(err)
		}
		must.Succeed(t, <-killed)
		must.Succeed(t, b.Start(t.Context()))
		err = patiently(t, func() error { return j.Publish(t.Context(), c, version(acknowledged+1, c)) })
		if !errors.Is(err, fence.ErrNotRaised) {
			t.Fatalf("before the mark is raised again: %v", err)
		}
		must.Succeed(t, patiently(t, func() error { return j.Raise(t.Context(), c) }))
		cp, _, err := j.TakeOver(t.Context(), c, nightly, -1)
		if err != nil || cp.Version != acknowledged && cp.Version != acknowledged+1 {
			t.Fatalf("%d were acknowledged, %d are stored: %v", acknowledged, cp.Version, err)
		}
		acknowledged = cp.Version
	}
}

// Redis loses everything while the leader has a copy. The leader must neither begin at step one nor
// overwrite anything.
func TestAJournalThatIsFlushedFailsClosed(t *testing.T) {
	b := newBench(t, serverstest.Redis(t, servers.RedisOptions{}))
	j := b.journal(t, redisjournal.Options{})
	c := b.lead(t, j, "orders")
	for n := range int64(3) {
		publish(t, j, c, n+1)
	}
	b.do(t, "FLUSHALL")
	for range 2 {
		if err := j.Publish(t.Context(), c, version(4, c)); !errors.Is(err, fence.ErrNotInstalled) {
			t.Fatalf("publish: %v", err)
		}
		if _, same, err := j.TakeOver(t.Context(), c, nightly, 3); same ||
			!errors.Is(err, fence.ErrNotInstalled) {
			t.Fatalf("take: same is %v, %v", same, err)
		}
	}
	raiser := redisstore.NewRaiser(b.URL(), nil)
	t.Cleanup(raiser.Close)
	alone := b.journal(t, redisjournal.Options{Raiser: raiser})
	if err := alone.Raise(t.Context(), c); !errors.Is(err, fence.ErrNotInstalled) {
		t.Fatalf("without a coordinator: %v", err)
	}
	if n := b.do(t, "DBSIZE"); n != int64(0) {
		t.Fatalf("%v keys were written", n)
	}

	if err := j.Raise(t.Context(), c); err != nil { // the coordinator confirms it
		t.Fatal(err)
	}
	if cp, same, err := j.TakeOver(t.Context(), c, nightly, 3); err != nil || same || cp.Version != 0 {
		t.Fatalf("take: version %d, same is %v, %v", cp.Version, same, err)
	}
	if err := j.Publish(t.Context(), c, version(4, c)); !errors.Is(err, checkpoint.ErrConflict) {
		t.Fatalf("publish of what follows the copy: %v", err)
	}
	if all, err := j.Load(t.Context()); len(all) != 0 || err != nil {
		t.Fatalf("stored: %+v, %v", all, err)
	}
}

// Redis was restored from a copy and has an older checkpoint than the leader.
func TestALeaderWithANewerCheckpointDoesNotOverwriteAnOlderOne(t *testing.T) {
	b := newBench(t, serverstest.Redis(t, servers.RedisOptions{}))
	j := b.journal(t, redisjournal.Options{})
	c := b.lead(t, j, "orders")
	publish(t, j, c, 1)
	copied := b.do(t, "DUMP", "ringfence:.checkpoint:nightly")
	publish(t, j, c, 2)
	publish(t, j, c, 3)
	b.do(t, "RESTORE", "ringfence:.checkpoint:nightly", 0, copied, "REPLACE")
	if err := j.Publish(t.Context(), c, version(4, c)); !errors.Is(err, checkpoint.ErrConflict) {
		t.Errorf("publish: %v", err)
	}
	if cp, same, err := j.TakeOver(t.Context(), c, nightly, 3); err != nil || same || cp.Version != 1 {
		t.Errorf("take: version %d, same is %v, %v", cp.Version, same, err)
	}
}

// As Lua numbers these versions are equal.
func TestVersionsAreNotRounded(t *testing.T) {
	const stored = 1<<60 + 5
	b := newBench(t, serverstest.Redis(t, servers.RedisOptions{}))
	j := b.journal(t, redisjournal.Options{})
	c := b.lead(t, j, "orders")
	b.do(t, "HSET", "ringfence:.checkpoint:nightly", "version", fmt.Sprint(stored),
		"resource", "orders")
	for _, wrong := range []int64{stored - 1, stored, stored + 2} {
		if err := j.Publish(t.Context(), c, version(wrong, c)); !errors.Is(err, checkpoint.ErrConflict) {
			t.Errorf("version %d was published after version %d: %v", wrong, int64(stored), err)
		}
	}
	for _, other := range []int64{stored - 1, stored + 1} {
		if _, same, _ := j.TakeOver(t.Context(), c, nightly, other); same {
			t.Errorf("version %d was taken for version %d", other, int64(stored))
		}
	}
	publish(t, j, c, stored+1)
	if _, same, err := j.TakeOver(t.Context(), c, nightly, stored+1); !same || err != nil {
		t.Errorf("same is %v, %v", same, err)
	}
}

func TestAHashThatIsNotACheckpointIsCorruptAndStays(t *testing.T) {
	const key = "ringfence:.checkpoint:nightly"
	b := newBench(t, serverstest.Redis(t, servers.RedisOptions{}))
	j := b.journal(t, redisjournal.Options{})
	c := b.lead(t, j, "orders")
	for name, row := range map[string]struct {
		spoil [][]any
		lands bool // the next version replaces it
	}{
		"no JSON":         {[][]any{{"HSET", key, "checkpoint", "{"}}, true},
		"another task's":  {[][]any{{"HSET", key, "checkpoint", `{"task":"hourly","version":1}`}}, true},
		"another version": {[][]any{{"HSET", key, "checkpoint", `{"task":"nightly","version":2}`}}, true},
		"no checkpoint":   {[][]any{{"HDEL", key, "checkpoint"}}, true},
		"no version":      {[][]any{{"HDEL", key, "version"}}, false},
		"no hash":         {[][]any{{"DEL", key}, {"SET", key, "x"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			b.do(t, "DEL", key)
			publish(t, j, c, 1)
			for _, command := range row.spoil {
				b.do(t, command...)
			}
			if cp, same, err := j.TakeOver(t.Context(), c, nightly, -1); same ||
				!errors.Is(err, checkpoint.ErrCorrupt) || cp.Version != 0 {
				t.Errorf("take: %+v, same is %v, %v", cp, same, err)
			}
			if all, err := j.Load(t.Context()); len(all) != 0 ||
				!errors.Is(err, checkpoint.ErrCorrupt) || !strings.Contains(err.Error(), key) {
				t.Errorf("load: %+v, %v", all, err)
			}
			before := b.do(t, "DUMP", key)
			err := j.Publish(t.Context(), c, version(2, c))
			if row.lands && err != nil || !row.lands && !errors.Is(err, checkpoint.ErrCorrupt) {
				t.Errorf("publish: %v", err)
			}
			if !row.lands && b.do(t, "DUMP", key) != before {
				t.Error("it was written over")
			}
		})
	}
}

// A corrupt checkpoint does not hide the others.
func TestLoadReturnsWhatCanBeRead(t *testing.T) {
	b := newBench(t, serverstest.Redis(t, servers.RedisOptions{}))
	j := b.journal(t, redisjournal.Options{})
	c := b.lead(t, j, "orders")
	for i := range 100 {
		cp := version(1, c)
		cp.Task = checkpoint.Name(fmt.Sprintf("task-%03d", i))
		must.Succeed(t, j.Publish(t.Context(), c, cp))
	}
	b.do(t, "HSET", "ringfence:.checkpoint:task-007", "checkpoint", "{")
	b.do(t, "DEL", "ringfence:.checkpoint:task-050")
	all, err := j.Load(t.Context())
	if len(all) != 98 || !errors.Is(err, checkpoint.ErrCorrupt) ||
		!strings.Contains(err.Error(), "task-007") {
		t.Errorf("%d loaded, %v", len(all), err)
	}
}
