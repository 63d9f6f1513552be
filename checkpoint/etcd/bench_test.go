package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/checkpointtest"
	"github.com/ringfence/ringfence/fence"
	elections "github.com/ringfence/ringfence/fence/etcd"
	"github.com/ringfence/ringfence/internal/cluster/clustertest"
	"github.com/ringfence/ringfence/internal/servers/serverstest"
)

const (
	leaderTimeout = time.Minute // long enough for a member that starts slowly

	orders  fence.Resource  = "orders"
	nightly checkpoint.Name = "nightly"
)

func TestMain(m *testing.M) { os.Exit(serverstest.RunMain(m)) }

var made atomic.Int64

// bench is a fresh prefix in a cluster, with its elections.
type bench struct {
	t       *testing.T
	url     string
	admin   *clientv3.Client // an operator's
	elector *elections.Coordinator
	leaders map[fence.Resource]*fence.Term
}

func newBench(t *testing.T, server string) *bench {
	t.Helper()
	b := benchAt(t, fmt.Sprintf("etcd://%s/bench-%d", server, made.Add(1)))
	b.admin = clustertest.Connect(t, server)
	return b
}

// benchAt is a bench without an operator.
func benchAt(t *testing.T, url string) *bench {
	t.Helper()
	c, err := elections.Open(t.Context(), url, elections.Options{SessionTimeout: leaderTimeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &bench{t: t, url: url, elector: c, leaders: map[fence.Resource]*fence.Term{}}
}

// journal opens a journal, as another process would.
func (b *bench) journal(o Options) *Journal { b.t.Helper(); return b.journalWith(o, nil) }

// journalWith opens a journal in which meddle sees each unary call.
func (b *bench) journalWith(o Options, meddle grpc.UnaryClientInterceptor) *Journal {
	b.t.Helper()
	j, err := open(b.t.Context(), b.url, o, func(c *clientv3.Config) {
		if meddle != nil {
			c.DialOptions = append(c.DialOptions, grpc.WithChainUnaryInterceptor(meddle))
		}
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { j.Close() })
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

func publish(t *testing.T, j *Journal, c fence.Claim, cp checkpoint.Checkpoint) {
	t.Helper()
	if err := j.Publish(t.Context(), c, cp); err != nil {
		t.Fatalf("publish version %d: %v", cp.Version, err)
	}
}

// stored fails the test unless exactly this checkpoint is stored.
func stored(t *testing.T, j *Journal, want checkpoint.Checkpoint) {
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
	t *testing.T, j *Journal, c fence.Claim, sentinel error, present checkpoint.Checkpoint,
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

// faults are what an interceptor does to the transactions that write.
type faults struct {
	loseReply   atomic.Bool // the next one happens, and its reply is lost
	loseRequest atomic.Bool // the next one does not happen
	hold        atomic.Pointer[held]
}

// held is a write that is on its way.
type held struct{ sent, arrive chan struct{} }

var errLost = status.Error(codes.Unavailable, "the reply was lost")

func (f *faults) meddle(
	ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
	invoke grpc.UnaryInvoker, o ...grpc.CallOption,
) error {
	if !strings.Contains(fmt.Sprint(req), "request_put") {
		return invoke(ctx, method, req, reply, cc, o...)
	}
	if h := f.hold.Swap(nil); h != nil {
		close(h.sent)
		<-h.arrive
	}
	if f.loseRequest.CompareAndSwap(true, false) {
		return errLost
	}
	err := invoke(ctx, method, req, reply, cc, o...)
	if f.loseReply.CompareAndSwap(true, false) {
		return errLost
	}
	return err
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
				c := b.lead(r)
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
	case errors.Is(taken, checkpoint.ErrUnknown), errors.Is(taken, checkpoint.ErrTransient), ctx.Err() != nil:
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
