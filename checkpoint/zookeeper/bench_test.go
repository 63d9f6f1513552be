package zookeeper_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/zookeeper"
	"github.com/ringfence/ringfence/fence"
	elections "github.com/ringfence/ringfence/fence/zookeeper"
)

const (
	sessionTimeout = 20 * time.Second // long enough for a busy machine
	leaderTimeout  = time.Minute      // long enough for a server that starts slowly

	orders  fence.Resource  = "orders"
	nightly checkpoint.Name = "nightly"
)

var made atomic.Int64

// bench is a fresh root in an ensemble, with its elections.
type bench struct {
	t       *testing.T
	url     string
	elector *elections.Coordinator
	leaders map[fence.Resource]*fence.Term
}

func newBench(t *testing.T, ensemble string) *bench {
	t.Helper()
	b := &bench{t: t, url: fmt.Sprintf("zk://%s/bench-%d", ensemble, made.Add(1)),
		leaders: map[fence.Resource]*fence.Term{}}
	c, err := elections.Open(t.Context(), b.url, elections.Options{SessionTimeout: leaderTimeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	b.elector = c
	return b
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

// lead deposes the leader, which does not learn it, and makes another one.
func (b *bench) lead(r fence.Resource) fence.Claim {
	b.t.Helper()
	b.depose(r)
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
	defer cancel()
	term, err := b.elector.Campaign(ctx, r, fmt.Sprint("holder-", made.Add(1)))
	if err != nil {
		b.t.Fatal(err)
	}
	b.leaders[r] = term
	return term.Claim()
}

func (b *bench) depose(r fence.Resource) {
	b.t.Helper()
	if old := b.leaders[r]; old != nil {
		if gone, err := b.elector.Depose(b.t.Context(), r, old.Token()); !gone || err != nil {
			b.t.Fatal(gone, err)
		}
		delete(b.leaders, r)
	}
}

// version returns a checkpoint with its version as state, so that a lost or repeated one shows.
func version(n int64, c fence.Claim) checkpoint.Checkpoint {
	return checkpoint.Checkpoint{
		Task: nightly, Resource: c.Resource, Version: n, Nonce: fmt.Sprint("nonce-", made.Add(1)),
		Token: c.Token, Holder: c.Holder,
		Run: 1, Round: 1, Rounds: checkpoint.Forever, Steps: []string{"only"}, Status: checkpoint.Running,
		State: json.RawMessage(strconv.FormatInt(n, 10)), Saved: time.Now(),
	}
}

func publish(t *testing.T, j *zookeeper.Journal, c fence.Claim, cp checkpoint.Checkpoint) {
	t.Helper()
	if err := j.Publish(t.Context(), c, cp); err != nil {
		t.Fatalf("publish version %d: %v", cp.Version, err)
	}
}

// stored fails the test unless exactly this checkpoint is stored.
func stored(t *testing.T, j *zookeeper.Journal, want checkpoint.Checkpoint) {
	t.Helper()
	all, err := j.Load(t.Context(), nightly)
	switch {
	case err != nil:
		t.Fatal(err)
	case len(all) == 0 && want.Version == 0:
	case len(all) != 1 || all[0].Version != want.Version || all[0].Nonce != want.Nonce ||
		string(all[0].State) != string(want.State):
		t.Fatalf("stored is %+v, want %+v", all, want)
	}
}

// refused fails the test unless every call under the claim is refused with the sentinel and changes
// nothing.
func refused(
	t *testing.T, j *zookeeper.Journal, c fence.Claim, sentinel error,
	present checkpoint.Checkpoint,
) {
	t.Helper()
	if err := j.Raise(t.Context(), c); !errors.Is(err, sentinel) {
		t.Errorf("raise: got %v, want %v", err, sentinel)
	}
	if _, _, err := j.Take(t.Context(), c, nightly, present.Version); !errors.Is(err, sentinel) {
		t.Errorf("take: got %v, want %v", err, sentinel)
	}
	for _, cp := range []checkpoint.Checkpoint{version(1, c), version(present.Version+1, c)} {
		if err := j.Publish(t.Context(), c, cp); !errors.Is(err, sentinel) {
			t.Errorf("publish version %d: got %v, want %v", cp.Version, err, sentinel)
		}
	}
	stored(t, j, present)
}

// eventually polls until the condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("timed out waiting until %s", what)
		}
	}
}
