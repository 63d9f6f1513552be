package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/checkpointtest"
	"github.com/ringfence/ringfence/fence"
	elections "github.com/ringfence/ringfence/fence/etcd"
	"github.com/ringfence/ringfence/internal/journaltest"
	"github.com/ringfence/ringfence/internal/servers/serverstest"
)

// hand edits checkpoints with the operator's client.
type hand struct {
	*bench
	j *Journal // knows the keys
}

func (h hand) Put(task checkpoint.Name, data string) int64 {
	h.t.Helper()
	if _, err := h.admin.Put(h.t.Context(), h.j.key(task), data); err != nil {
		h.t.Fatal(err)
	}
	return h.read(task).Version
}

func (h hand) Get(task checkpoint.Name) string { h.t.Helper(); return string(h.read(task).Value) }

func (h hand) read(task checkpoint.Name) *mvccpb.KeyValue {
	h.t.Helper()
	got, err := h.admin.Get(h.t.Context(), h.j.key(task))
	if err != nil || len(got.Kvs) != 1 {
		h.t.Fatal(got, err)
	}
	return got.Kvs[0]
}

func (h hand) Delete(task checkpoint.Name) {
	h.t.Helper()
	if _, err := h.admin.Delete(h.t.Context(), h.j.key(task)); err != nil {
		h.t.Fatal(err)
	}
}

func TestEtcdKeepsTheContractOfItsElections(t *testing.T) {
	journaltest.Run(t, func(t *testing.T) journaltest.Fixture {
		b := newBench(t, serverstest.SharedEtcd(t).Addr())
		return journaltest.Fixture{
			Leaders: b.Leaders, Hand: hand{b, b.journal(Options{})}, Closed: elections.ErrClosed,
			Open: func() journaltest.Journal { return b.journal(Options{}) },
		}
	})
}

func TestEtcdKeepsTheContract(t *testing.T) {
	for name, meddles := range map[string]bool{"on a good network": false, "with lost answers": true} {
		t.Run(name, func(t *testing.T) { keepsTheContract(t, meddles) })
	}
}

func keepsTheContract(t *testing.T, meddles bool) {
	checkpointtest.Run(t, func(t *testing.T) checkpointtest.Fixture {
		const limit = 200_000
		b := newBench(t, serverstest.SharedEtcd(t).Addr())
		o := Options{Limit: limit, RequestTimeout: 20 * time.Second}
		j, second := b.journal(o), b.journal(o)
		fixture := checkpointtest.Fixture{
			Journal: j, Second: second, Limit: limit,
			Lead: func(t *testing.T, r fence.Resource) fence.Claim {
				c := b.Lead(r)
				if err := j.Raise(t.Context(), c); err != nil {
					t.Fatal(err)
				}
				return c
			},
		}
		if meddles {
			landed := &sync.Map{}
			fixture.Journal, fixture.Second = b.lossy(o, landed), b.lossy(o, landed)
		}
		return fixture
	})
}

// lossy is a journal that loses the reply of each third write and each fourth request, and reads
// back what is unknown, as the Runner does.
type lossy struct {
	*Journal
	faults *faults
	writes atomic.Int64
	landed *sync.Map // tasks and nonces of what has landed, so that a repeated publish is a conflict
}

func (b *bench) lossy(o Options, landed *sync.Map) checkpoint.Journal {
	f := &faults{}
	return &lossy{Journal: b.journalWith(o, f.meddle), faults: f, landed: landed}
}

func (l *lossy) Forget(ctx context.Context, c fence.Claim, task checkpoint.Name) error {
	n := l.writes.Add(1)
	l.faults.loseReply.Store(n%3 == 0)
	l.faults.loseRequest.Store(n%4 == 0)
	return l.Journal.Forget(ctx, c, task)
}

func (l *lossy) Publish(ctx context.Context, c fence.Claim, cp checkpoint.Checkpoint) error {
	n := l.writes.Add(1)
	l.faults.loseReply.Store(n%3 == 0)
	l.faults.loseRequest.Store(n%4 == 0)
	err := l.Journal.Publish(ctx, c, cp)
	if err == nil {
		l.landed.Store(string(cp.Task)+cp.Nonce, true)
	}
	if !errors.Is(err, checkpoint.ErrUnknown) || ctx.Err() != nil {
		return err
	}
	got, _, taken := l.Take(ctx, c, cp.Task, -1)
	switch {
	case errors.Is(taken, checkpoint.ErrUnknown), errors.Is(taken, checkpoint.ErrTransient),
		ctx.Err() != nil:
		return err
	case taken != nil: // so was the publish refused, unless it came first
		all, failed := l.Load(ctx, cp.Task)
		if failed != nil {
			return err
		}
		if len(all) == 0 || all[0].Nonce != cp.Nonce {
			return taken
		}
		got = all[0]
	}
	switch {
	case got.Version == cp.Version && got.Nonce == cp.Nonce:
		if _, before := l.landed.LoadOrStore(string(cp.Task)+cp.Nonce, true); before {
			return checkpoint.ErrConflict
		}
		return nil
	case got.Version == cp.Version-1:
		return fmt.Errorf("%w: it has not landed", checkpoint.ErrTransient)
	}
	return checkpoint.ErrConflict
}
