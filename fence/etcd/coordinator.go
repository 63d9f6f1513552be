package etcd

import (
	"context"
	"log/slog"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/campaign"
	"github.com/ringfence/ringfence/internal/cluster"
)

// Options change how a Coordinator works. The zero value is good.
type Options struct {
	// SessionTimeout is the time to live of the lease, in whole seconds; fractions are rounded up.
	// etcd raises one that is too short for its own election timeout. It is how long a crashed leader
	// holds up the next. Default 10 s.
	SessionTimeout time.Duration

	// Logger is told of retries. Default: nothing is logged.
	Logger *slog.Logger
}

var (
	// ErrClosed is returned by calls on a closed Coordinator.
	ErrClosed = cluster.ErrClosed
	// ErrUnreachable is returned when no member has answered in time.
	ErrUnreachable = cluster.ErrUnreachable
)

// Coordinator holds elections in one etcd cluster. Its methods may be called from any goroutine.
// Close it.
type Coordinator struct {
	client  *cluster.Client
	timeout time.Duration // of sessions, as asked for
	log     *slog.Logger
	ctx     context.Context // ends at Close with ErrClosed

	campaigns *campaign.Campaigns[*session, *candidate]
	documents *store

	mu     sync.Mutex
	closed bool
	work   sync.WaitGroup // campaigns, terms, watches and sessions

	woken func(r fence.Resource, holder string) // for tests: a watch has woken a candidate
}

var _ fence.Coordinator = (*Coordinator)(nil)

// Open connects to the cluster that the URL names and makes sure that it has an issuer. The form is
//
//	etcd://[user:password@]host[:port][,host[:port]…][/prefix]
//	etcds://…[?sslrootcert=FILE][&sslcert=FILE&sslkey=FILE]
//
// The port defaults to 2379 and the prefix to /ringfence. User and password are percent-encoded
// where needed. etcds uses TLS: it verifies the members by sslrootcert, or the system's roots, and
// presents the client certificate if there is one. Open fails if no member answers within the
// session timeout, or if etcd refuses the credentials.
func Open(ctx context.Context, url string, o Options) (*Coordinator, error) {
	a, err := cluster.ParseURL(url)
	if err != nil {
		return nil, err
	}
	return open(ctx, a, o, nil)
}

// open is Open. change is for tests.
func open(
	ctx context.Context, a cluster.Address, o Options, change func(*clientv3.Config),
) (*Coordinator, error) {
	c := &Coordinator{timeout: o.SessionTimeout}
	if c.timeout <= 0 {
		c.timeout = cluster.DefaultTimeout
	}
	var err error
	c.client, err = cluster.Open(ctx, a, cluster.Options{
		Timeout: c.timeout, Logger: o.Logger, Change: change,
	})
	if err != nil {
		return nil, err
	}
	c.log, c.ctx = c.client.Log, c.client.Context()
	c.documents = &store{c, cluster.NewLeading(c.client)}
	c.campaigns = campaign.New(campaign.Options[*session]{
		Open: c.grant, Closed: c.ctx, Go: c.work.Go, Refused: cluster.Refused, Log: c.log,
	})
	if _, err := c.Issuer(ctx); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// Close loses the terms that were won here (their cause matches fence.ErrResigned), ends the
// campaigns with ErrClosed, and waits for every goroutine. It does not wait for the holders' work:
// resign first.
func (c *Coordinator) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.client.End()
	c.work.Wait() // sessions revoke their leases
	return c.client.Close()
}

// begin starts something that Close waits for. Call c.work.Done when it has ended.
func (c *Coordinator) begin() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	c.work.Add(1)
	return nil
}
