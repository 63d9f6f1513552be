package etcd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/ringfence/ringfence/fence"
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
	ErrClosed = errors.New("the etcd coordinator is closed")
	// ErrUnreachable is returned when no member has answered in time.
	ErrUnreachable = errors.New("etcd did not answer in time")
)

const (
	defaultSessionTimeout = 10 * time.Second
	leastRequestTimeout   = 2 * time.Second
)

// Coordinator holds elections in one etcd cluster. Its methods may be called from any goroutine.
// Close it.
type Coordinator struct {
	client  *clientv3.Client
	layout  layout
	timeout time.Duration // of sessions, as asked for
	log     *slog.Logger

	ctx   context.Context // ends at Close with ErrClosed
	close context.CancelCauseFunc

	sessions chan *session // holds the current session, or nil

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
	a, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	return open(ctx, a, o, nil)
}

// open is Open. change is for tests.
func open(
	ctx context.Context, a address, o Options, change func(*clientv3.Config),
) (*Coordinator, error) {
	c := &Coordinator{layout: layout{a.prefix}, timeout: o.SessionTimeout, log: o.Logger}
	if c.timeout <= 0 {
		c.timeout = defaultSessionTimeout
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	c.log = c.log.With("etcd", strings.Join(a.hosts, ","))
	c.sessions = make(chan *session, 1)
	c.sessions <- nil
	c.ctx, c.close = context.WithCancelCause(context.Background())
	if err := c.connect(ctx, a, change); err != nil {
		c.close(ErrClosed)
		return nil, err
	}
	if _, err := c.Issuer(ctx); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// connect makes the client, which logs in if there is a user.
func (c *Coordinator) connect(ctx context.Context, a address, change func(*clientv3.Config)) error {
	cfg := clientv3.Config{
		Context: c.ctx, Endpoints: a.endpoints(), Username: a.user, Password: a.password, TLS: a.tls,
		DialTimeout: c.requestTimeout(), DialKeepAliveTime: 10 * time.Second,
		DialKeepAliveTimeout: 5 * time.Second, Logger: zap.NewNop(),
	}
	if change != nil {
		change(&cfg)
	}
	_, err := ask(ctx, c, "log in", func(context.Context) (_ struct{}, err error) {
		c.client, err = clientv3.New(cfg)
		return struct{}{}, err
	})
	return err
}

// requestTimeout is how long a call waits for an answer: a session timeout, 2 s at least.
func (c *Coordinator) requestTimeout() time.Duration { return max(c.timeout, leastRequestTimeout) }

// Close loses the terms that were won here (their cause matches fence.ErrResigned), ends the
// campaigns with ErrClosed, and waits for every goroutine. It does not wait for the holders' work:
// resign first.
func (c *Coordinator) Close() error {
	c.mu.Lock()
	again := c.closed
	c.closed = true
	c.mu.Unlock()
	c.close(ErrClosed)
	c.work.Wait()
	if again || c.client == nil {
		return nil
	}
	if err := c.client.Close(); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("close the etcd client: %w", err)
	}
	return nil
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

// withClose returns a context that ends with ctx, and with the Coordinator.
func (c *Coordinator) withClose(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(c.ctx, func() { cancel(ErrClosed) })
	return ctx, func() { unhook(); cancel(nil) }
}
