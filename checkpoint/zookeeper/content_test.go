package zookeeper_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/zookeeper"
	"github.com/ringfence/ringfence/internal/journaltest"
	"github.com/ringfence/ringfence/internal/servers/serverstest"
)

// The server breaks the connection. That must not count as a publish, and the error names the
// setting.
func TestACheckpointAboveTheServersLimitIsUnknown(t *testing.T) {
	b := newBench(t, serverstest.SharedZooKeeper(t).Addr())
	j := b.journal(zookeeper.Options{Limit: 2_000_000})
	c := b.Lead(orders)
	first := version(1, c)
	publish(t, j, c, first)
	for range 2 {
		err := j.Publish(t.Context(), c, journaltest.Sized(t, 2, c, 1_500_000))
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
	c := b.Lead(orders)
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

func TestCheckpointsBelongToTheUserInTheURL(t *testing.T) {
	ensemble := serverstest.SharedZooKeeper(t).Addr()
	b := newBench(t, "alice:s%3Acret@"+ensemble)
	j := b.journal(zookeeper.Options{})
	c := b.Lead(orders)
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
