package zookeeper_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringfence/ringfence/checkpoint/zookeeper"
	elections "github.com/ringfence/ringfence/fence/zookeeper"
	"github.com/ringfence/ringfence/internal/journaltest"
)

const (
	sessionTimeout = 20 * time.Second // long enough for a busy machine
	leaderTimeout  = time.Minute      // long enough for a server that starts slowly

	orders  = journaltest.Orders
	nightly = journaltest.Nightly
)

var (
	version    = journaltest.Version
	publish    = journaltest.Publish
	stored     = journaltest.Stored
	refused    = journaltest.Refused
	eventually = journaltest.Eventually
)

var made atomic.Int64

// bench is a fresh root in an ensemble, with its elections.
type bench struct {
	*journaltest.Leaders
	t   *testing.T
	url string
}

func newBench(t *testing.T, ensemble string) *bench {
	t.Helper()
	url := fmt.Sprintf("zk://%s/bench-%d", ensemble, made.Add(1))
	c, err := elections.Open(t.Context(), url, elections.Options{SessionTimeout: leaderTimeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &bench{Leaders: journaltest.NewLeaders(t, c), t: t, url: url}
}

// journal opens a journal, as another process would.
func (b *bench) journal(o zookeeper.Options) *zookeeper.Journal {
	b.t.Helper()
	return openJournal(b.t, b.url, o)
}

func openJournal(t *testing.T, url string, o zookeeper.Options) *zookeeper.Journal {
	t.Helper()
	j, err := zookeeper.Open(t.Context(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}
