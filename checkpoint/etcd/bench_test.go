package etcd

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	elections "github.com/ringfence/ringfence/fence/etcd"
	"github.com/ringfence/ringfence/internal/cluster/clustertest"
	"github.com/ringfence/ringfence/internal/journaltest"
	"github.com/ringfence/ringfence/internal/servers/serverstest"
)

const (
	leaderTimeout = time.Minute // long enough for a member that starts slowly

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

func TestMain(m *testing.M) { os.Exit(serverstest.RunMain(m)) }

var made atomic.Int64

// bench is a fresh prefix in a cluster, with its elections.
type bench struct {
	*journaltest.Leaders
	t     *testing.T
	url   string
	admin *clientv3.Client // an operator's
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
	return &bench{Leaders: journaltest.NewLeaders(t, c), t: t, url: url}
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
	if text := fmt.Sprint(req); !strings.Contains(text, "request_put") &&
		!strings.Contains(text, "request_delete_range") {
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
