package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
	elections "github.com/ringfence/ringfence/fence/etcd"
	"github.com/ringfence/ringfence/internal/servers"
	"github.com/ringfence/ringfence/internal/servers/serverstest"
)

// sized returns a checkpoint with exactly this size as JSON.
func sized(t *testing.T, n int64, c fence.Claim, bytes int) checkpoint.Checkpoint {
	t.Helper()
	cp := version(n, c)
	cp.Saved = time.Unix(1, 0)
	cp.State = json.RawMessage(`""`)
	empty, err := json.Marshal(cp)
	if err != nil {
		t.Fatal(err)
	}
	cp.State = json.RawMessage(`"` + strings.Repeat("x", bytes-len(empty)) + `"`)
	return cp
}

func tooLargeNames(t *testing.T, err error, words ...string) {
	t.Helper()
	if !errors.Is(err, checkpoint.ErrTooLarge) || errors.Is(err, checkpoint.ErrUnknown) {
		t.Errorf("publish returned %v", err)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("no %q in %v", word, err)
		}
	}
}

func TestTheLimitIsExact(t *testing.T) {
	b := newBench(t, serverstest.SharedEtcd(t).Addr())
	j := b.journal(Options{})
	c := b.lead(orders)
	for n := range int64(3) {
		cp := sized(t, n+1, c, defaultLimit)
		publish(t, j, c, cp)
		stored(t, j, cp)
		for _, bytes := range []int{defaultLimit + 1, 2 * defaultLimit} {
			tooLargeNames(t, j.Publish(t.Context(), c, sized(t, n+2, c, bytes)),
				"1500000", fmt.Sprint(bytes), "nothing was sent", "keep large data elsewhere")
		}
		stored(t, j, cp)
	}
}

// A member refuses what is a little too large. Its gRPC server refuses what is much too large.
func TestACheckpointAboveTheServersLimitIsTooLarge(t *testing.T) {
	server := serverstest.Etcd(t, servers.EtcdOptions{Args: []string{"--max-request-bytes", "100000"}})
	b := newBench(t, server.Addr())
	j := b.journal(Options{Limit: 4_000_000})
	c := b.lead(orders)
	first := version(1, c)
	publish(t, j, c, first)
	for _, bytes := range []int{150_000, 1_000_000, 3_900_000} {
		tooLargeNames(t, j.Publish(t.Context(), c, sized(t, 2, c, bytes)), "--max-request-bytes",
			fmt.Sprint(bytes), "4000000", "nothing has landed")
		stored(t, j, first)
	}
	publish(t, j, c, sized(t, 2, c, 90_000))
}

func TestAKeyThatIsNotACheckpointIsCorrupt(t *testing.T) {
	b := newBench(t, serverstest.SharedEtcd(t).Addr())
	c := b.lead(orders)
	good := version(1, c)
	good.Task = "good"
	first := b.journal(Options{})
	publish(t, first, c, good)
	at := first.key(nightly)
	if _, err := b.admin.Put(t.Context(), first.key("not a name"), ""); err != nil {
		t.Fatal(err)
	}
	present := int64(0)
	for name, data := range map[string]string{
		"empty":       "",
		"not JSON":    "{",
		"null":        "null",
		"other task":  `{"task":"good","resource":"orders","version":1}`,
		"no resource": `{"task":"nightly","version":1}`,
		"wrong type":  `{"task":"nightly","resource":"orders","steps":7}`,
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := b.admin.Put(t.Context(), at, data); err != nil {
				t.Fatal(err)
			}
			present++
			j := b.journal(Options{}) // a journal with empty caches
			corrupt := func(what string, err error) {
				t.Helper()
				if !errors.Is(err, checkpoint.ErrCorrupt) || !strings.Contains(err.Error(), "nightly") {
					t.Errorf("%s: %v", what, err)
				}
			}
			for _, have := range []int64{0, present} {
				_, same, err := j.Take(t.Context(), c, nightly, have)
				corrupt("take", err)
				if same {
					t.Error("the copy is said to be right")
				}
			}
			for _, n := range []int64{1, present + 1} {
				corrupt("publish", j.Publish(t.Context(), c, version(n, c)))
			}
			corrupt("follow", j.Follow(t.Context(), nightly, func(cp checkpoint.Checkpoint) error {
				return fmt.Errorf("shown %+v", cp)
			}))
			all, err := j.Load(t.Context())
			corrupt("load", err)
			if len(all) != 1 || all[0].Nonce != good.Nonce {
				t.Errorf("load: %+v", all)
			}
			got, err := b.admin.Get(t.Context(), at)
			if err != nil || string(got.Kvs[0].Value) != data {
				t.Errorf("it was changed to %v, %v", got, err)
			}
		})
	}
}

func TestAnEditByHandIsANewVersion(t *testing.T) {
	b := newBench(t, serverstest.SharedEtcd(t).Addr())
	j := b.journal(Options{})
	c := b.lead(orders)
	cp := version(1, c)
	publish(t, j, c, cp)
	got, err := b.admin.Get(t.Context(), j.key(nightly))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.admin.Put(t.Context(), j.key(nightly), string(got.Kvs[0].Value)); err != nil {
		t.Fatal(err)
	}
	if err := j.Publish(t.Context(), c, version(2, c)); !errors.Is(err, checkpoint.ErrConflict) {
		t.Errorf("a publish over the edit: %v", err)
	}
	taken, same, err := j.Take(t.Context(), c, nightly, 1)
	if err != nil || same || taken.Version != 2 || taken.Nonce != cp.Nonce {
		t.Errorf("take: %+v, same is %v, %v", taken, same, err)
	}
	publish(t, j, c, version(3, c))
	if _, err := b.admin.Delete(t.Context(), j.key(nightly)); err != nil {
		t.Fatal(err)
	}
	if _, same, err := j.Take(t.Context(), c, nightly, 3); err != nil || same {
		t.Errorf("take of what was deleted: same is %v, %v", same, err)
	}
	publish(t, j, c, version(1, c))
}

// More tasks than fit into one request, and keys around them.
func TestEveryTaskIsListed(t *testing.T) {
	b := newBench(t, serverstest.SharedEtcd(t).Addr())
	j := b.journal(Options{})
	c := b.lead(orders)
	const tasks = 2*page + 3
	for i := range tasks {
		cp := version(1, c)
		cp.Task = checkpoint.Name(fmt.Sprint("task-", i))
		publish(t, j, c, cp)
	}
	all, err := j.Load(t.Context())
	if err != nil || len(all) != tasks {
		t.Errorf("%d tasks, %v", len(all), err)
	}
	some, err := j.Load(t.Context(), "task-3", "task-1", "task-3", "never")
	if err != nil || len(some) != 2 || some[0].Task != "task-1" || some[1].Task != "task-3" {
		t.Errorf("%+v, %v", some, err)
	}
}

func TestBadNamesAreRefused(t *testing.T) {
	b := newBench(t, serverstest.SharedEtcd(t).Addr())
	j := b.journal(Options{})
	c := b.lead(orders)
	for _, name := range []checkpoint.Name{"", ".", "..", "a/b", "/", "../issuer", "a b"} {
		cp := version(1, c)
		cp.Task = name
		_, _, taken := j.Take(t.Context(), c, name, 0)
		_, loaded := j.Load(t.Context(), name)
		for what, err := range map[string]error{
			"take": taken, "publish": j.Publish(t.Context(), c, cp), "load": loaded,
			"follow": j.Follow(t.Context(), name, func(checkpoint.Checkpoint) error { return nil }),
		} {
			if !errors.Is(err, checkpoint.ErrBadName) {
				t.Errorf("%s of %q: %v", what, name, err)
			}
		}
	}
	for _, r := range []fence.Resource{"", "..", "orders/x", "../elections/orders"} {
		stranger := c
		stranger.Resource = r
		cp := version(1, c)
		cp.Resource = r
		start := time.Now()
		err := j.Publish(t.Context(), stranger, cp)
		if !errors.Is(err, fence.ErrBadResource) || time.Since(start) > 5*time.Second {
			t.Errorf("publish for %q after %v: %v", r, time.Since(start), err)
		}
	}
}

func TestAClosedJournalReturnsErrClosed(t *testing.T) {
	b := newBench(t, serverstest.SharedEtcd(t).Addr())
	j, standby := b.journal(Options{}), b.journal(Options{})
	c := b.lead(orders)
	publish(t, j, c, version(1, c))
	seen, ended := make(chan struct{}, 1), make(chan error, 1)
	go func() {
		ended <- standby.Follow(t.Context(), nightly, func(checkpoint.Checkpoint) error {
			seen <- struct{}{}
			return nil
		})
	}()
	<-seen
	for _, j := range []*Journal{j, standby, j} {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := <-ended; !errors.Is(err, elections.ErrClosed) {
		t.Errorf("follow ended with %v", err)
	}
	if err := j.Publish(context.Background(), c, version(2, c)); !errors.Is(err, elections.ErrClosed) ||
		errors.Is(err, checkpoint.ErrUnknown) {
		t.Errorf("publish after close: %v", err)
	}
}
