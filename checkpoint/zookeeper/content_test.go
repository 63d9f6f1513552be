package zookeeper_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/zookeeper"
	"github.com/ringfence/ringfence/fence"
	elections "github.com/ringfence/ringfence/fence/zookeeper"
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

// The server breaks the connection. That must not count as a publish, and the error names the
// setting.
func TestACheckpointAboveTheServersLimitIsUnknown(t *testing.T) {
	b := newBench(t, serverstest.SharedZooKeeper(t).Addr())
	j := b.journal(zookeeper.Options{Limit: 2_000_000})
	c := b.lead(orders)
	first := version(1, c)
	publish(t, j, c, first)
	for range 2 {
		err := j.Publish(t.Context(), c, sized(t, 2, c, 1_500_000))
		if !errors.Is(err, checkpoint.ErrUnknown) || !strings.Contains(err.Error(), "jute.maxbuffer") {
			t.Errorf("publish returned %v", err)
		}
		got, _, err := j.Take(t.Context(), c, nightly, 0)
		if err != nil || got.Nonce != first.Nonce {
			t.Errorf("take: %+v, %v", got, err)
		}
	}
	publish(t, j, c, version(2, c))
}

func TestATaskCanBePublishedTwoToThe31Times(t *testing.T) {
	const maxVersions = 1 << 31
	b := newBench(t, serverstest.SharedZooKeeper(t).Addr())
	j := b.journal(zookeeper.Options{})
	c := b.lead(orders)
	first := version(1, c)
	publish(t, j, c, first)
	err := j.Publish(t.Context(), c, version(maxVersions, c))
	if !errors.Is(err, checkpoint.ErrConflict) {
		t.Errorf("the last possible version: %v", err)
	}
	// The next ones would expect the versions MinInt32 and -1, and -1 means "any" to ZooKeeper.
	for _, n := range []int64{maxVersions + 1, 1<<32 + 1, 1 << 32} {
		err := j.Publish(t.Context(), c, version(n, c))
		if err == nil || errors.Is(err, checkpoint.ErrConflict) ||
			!strings.Contains(err.Error(), "as far as ZooKeeper counts") {
			t.Errorf("version %d: %v", n, err)
		}
		stored(t, j, first)
	}
}

// hand is the connection of an operator.
func (b *bench) hand() *zk.Conn {
	b.t.Helper()
	host, _, _ := strings.Cut(strings.TrimPrefix(b.url, "zk://"), "/")
	conn, events, err := zk.Connect(strings.Split(host, ","), 10*time.Second, zk.WithLogger(quietly{}))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		conn.Close()
		for range events { // until the connection's loop has ended
		}
	})
	if _, err := conn.Sync("/"); err != nil {
		b.t.Fatal(err)
	}
	return conn
}

type quietly struct{}

func (quietly) Printf(string, ...any) {}

func (b *bench) path(task checkpoint.Name) string {
	_, root, _ := strings.Cut(strings.TrimPrefix(b.url, "zk://"), "/")
	return "/" + root + "/checkpoints/" + string(task)
}

func TestAZnodeThatIsNotACheckpointIsCorrupt(t *testing.T) {
	b := newBench(t, serverstest.SharedZooKeeper(t).Addr())
	c := b.lead(orders)
	good := version(1, c)
	good.Task = "good"
	first := b.journal(zookeeper.Options{})
	publish(t, first, c, good)
	hand := b.hand()
	at := b.path(nightly)
	if _, err := hand.Create(at, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	if _, err := hand.Create(b.path("not a name"), nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{
		"empty":       "",
		"not JSON":    "{",
		"null":        "null",
		"other task":  `{"task":"good","resource":"orders","version":1}`,
		"no resource": `{"task":"nightly","version":1}`,
		"wrong type":  `{"task":"nightly","resource":"orders","steps":7}`,
	} {
		t.Run(name, func(t *testing.T) {
			stat, err := hand.Set(at, []byte(data), -1)
			if err != nil {
				t.Fatal(err)
			}
			present := int64(stat.Version) + 1
			j := b.journal(zookeeper.Options{}) // a journal with empty caches
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
			if got, _, err := hand.Get(at); err != nil || string(got) != data {
				t.Errorf("it was changed to %q, %v", got, err)
			}
		})
	}
}

func TestAnEditByHandIsANewVersion(t *testing.T) {
	b := newBench(t, serverstest.SharedZooKeeper(t).Addr())
	j := b.journal(zookeeper.Options{})
	c := b.lead(orders)
	cp := version(1, c)
	publish(t, j, c, cp)
	hand := b.hand()
	data, _, err := hand.Get(b.path(nightly))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := hand.Set(b.path(nightly), data, -1); err != nil {
		t.Fatal(err)
	}
	if err := j.Publish(t.Context(), c, version(2, c)); !errors.Is(err, checkpoint.ErrConflict) {
		t.Errorf("a publish over the edit: %v", err)
	}
	got, same, err := j.Take(t.Context(), c, nightly, 1)
	if err != nil || same || got.Version != 2 || got.Nonce != cp.Nonce {
		t.Errorf("take: %+v, same is %v, %v", got, same, err)
	}
	publish(t, j, c, version(3, c))

	// The documented procedure for a task at its last version.
	data, _, err = hand.Get(b.path(nightly))
	if err != nil {
		t.Fatal(err)
	}
	if err := hand.Delete(b.path(nightly), -1); err != nil {
		t.Fatal(err)
	}
	if _, same, err := j.Take(t.Context(), c, nightly, 3); err != nil || same {
		t.Errorf("take of what was deleted: same is %v, %v", same, err)
	}
	if _, err := hand.Create(b.path(nightly), data, 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	if got, _, err := j.Take(t.Context(), c, nightly, 3); err != nil || got.Version != 1 ||
		string(got.State) != "3" {
		t.Errorf("take after the znode was created again: %+v, %v", got, err)
	}
	publish(t, j, c, version(2, c))
}

func TestBadNamesAreRefused(t *testing.T) {
	b := newBench(t, serverstest.SharedZooKeeper(t).Addr())
	j := b.journal(zookeeper.Options{})
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
		if err := j.Publish(t.Context(), stranger, cp); !errors.Is(err, fence.ErrBadResource) {
			t.Errorf("publish for %q: %v", r, err)
		}
	}
}

func TestCheckpointsBelongToTheUserInTheURL(t *testing.T) {
	ensemble := serverstest.SharedZooKeeper(t).Addr()
	b := newBench(t, "alice:s%3Acret@"+ensemble)
	j := b.journal(zookeeper.Options{})
	c := b.lead(orders)
	first := version(1, c)
	publish(t, j, c, first)
	other := &bench{t: t, url: strings.Replace(b.url, "alice:s%3Acret@", "", 1)}
	hand := other.hand()
	if _, err := hand.Set(other.path(nightly), nil, -1); !errors.Is(err, zk.ErrNoAuth) {
		t.Errorf("a stranger's write: %v", err)
	}
	_, err := zookeeper.Open(t.Context(), other.url, zookeeper.Options{})
	if !errors.Is(err, zk.ErrNoAuth) {
		t.Errorf("a stranger's journal: %v", err)
	}
	stored(t, j, first)
	if err := hand.Delete(other.path(nightly), -1); !errors.Is(err, zk.ErrNoAuth) {
		t.Errorf("a stranger's delete: %v", err)
	}
}

func TestAClosedJournalReturnsErrClosed(t *testing.T) {
	b := newBench(t, serverstest.SharedZooKeeper(t).Addr())
	j, standby := b.journal(zookeeper.Options{}), b.journal(zookeeper.Options{})
	c := b.lead(orders)
	first := version(1, c)
	publish(t, j, c, first)
	seen, ended := make(chan struct{}, 1), make(chan error, 1)
	go func() {
		ended <- standby.Follow(t.Context(), nightly, func(checkpoint.Checkpoint) error {
			seen <- struct{}{}
			return nil
		})
	}()
	<-seen
	for _, j := range []*zookeeper.Journal{j, standby, j} {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := <-ended; !errors.Is(err, elections.ErrClosed) {
		t.Errorf("follow ended with %v", err)
	}
	if err := j.Publish(t.Context(), c, version(2, c)); !errors.Is(err, elections.ErrClosed) ||
		errors.Is(err, checkpoint.ErrUnknown) {
		t.Errorf("publish after close: %v", err)
	}
}
