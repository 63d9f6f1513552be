package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

var (
	// ErrClosed is returned by calls on a closed Client.
	ErrClosed = errors.New("the etcd client is closed")
	// ErrUnreachable is returned when no member has answered in time.
	ErrUnreachable = errors.New("etcd did not answer in time")
)

// Options of a Client.
type Options struct {
	// Timeout is how long a call waits for an answer, at least 2 s. Default 10 s.
	Timeout time.Duration
	// MaxRequest is how many bytes a request may have. Default 2 MiB.
	MaxRequest int
	// Logger gets what the packages log, with the hosts. Default: nothing is logged.
	Logger *slog.Logger
	// Change changes the library's settings, for tests.
	Change func(*clientv3.Config)
}

const (
	// DefaultTimeout is the default of Options.Timeout.
	DefaultTimeout = 10 * time.Second
	minTimeout     = 2 * time.Second
	maxRequest     = 2 << 20
)

// Client is a connection to a cluster, with the layout of the keys. Close it.
type Client struct {
	*clientv3.Client
	Layout
	Hosts string // host:port,…
	Log   *slog.Logger

	ctx     context.Context // ends with ErrClosed
	end     context.CancelCauseFunc
	close   func() error // of the library's client, once
	timeout time.Duration
}

// Open connects, and logs in if the address has a user.
func Open(ctx context.Context, a Address, o Options) (*Client, error) {
	c := &Client{
		Layout: Layout{Prefix: a.prefix}, Hosts: strings.Join(a.hosts, ","), Log: o.Logger,
		timeout: max(o.Timeout, minTimeout),
	}
	if o.Timeout <= 0 {
		c.timeout = DefaultTimeout
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.Log = c.Log.With("etcd", c.Hosts)
	c.ctx, c.end = context.WithCancelCause(context.Background())
	cfg := clientv3.Config{
		Context: c.ctx, Endpoints: a.endpoints(), Username: a.user, Password: a.password, TLS: a.tls,
		DialTimeout: c.timeout, DialKeepAliveTime: 10 * time.Second,
		DialKeepAliveTimeout: 5 * time.Second, MaxCallSendMsgSize: max(o.MaxRequest, maxRequest),
		Logger: zap.NewNop(),
	}
	if o.Change != nil {
		o.Change(&cfg)
	}
	again := &login{cfg: cfg}
	again.cfg.Username, again.cfg.Password = "", ""
	if cfg.Username != "" {
		cfg.DialOptions = append(slices.Clone(cfg.DialOptions),
			grpc.WithChainUnaryInterceptor(again.intercept))
	}
	_, err := Ask(ctx, c, "log in", func(context.Context) (_ struct{}, err error) {
		c.Client, err = clientv3.New(cfg)
		return struct{}{}, err
	})
	if err != nil {
		c.end(ErrClosed)
		_ = again.close()
		return nil, err
	}
	c.close = sync.OnceValue(func() error { return errors.Join(c.Client.Close(), again.close()) })
	return c, nil
}

// Context ends with ErrClosed when the Client ends.
func (c *Client) Context() context.Context { return c.ctx }

// RequestTimeout is how long a call waits for an answer.
func (c *Client) RequestTimeout() time.Duration { return c.timeout }

// End ends calls in progress with ErrClosed; later ones fail. A request that the caller sends with
// the embedded client and a context of its own still works until Close.
func (c *Client) End() { c.end(ErrClosed) }

// Close ends the connection. It may be called twice.
func (c *Client) Close() error {
	c.End()
	if err := c.close(); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("close the etcd client: %w", err)
	}
	return nil
}

// WithEnd returns a context that ends with ctx, and with the Client.
func (c *Client) WithEnd(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(c.ctx, func() { cancel(ErrClosed) })
	return ctx, func() { unhook(); cancel(nil) }
}
