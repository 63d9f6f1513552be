package etcd

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
	"google.golang.org/grpc/backoff"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/fence/internal/campaign"
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
	ErrClosed = campaign.ErrClosed
	// ErrUnreachable is returned when no member has answered in time.
	ErrUnreachable = campaign.ErrUnreachable
)

// Coordinator holds elections in one etcd cluster. Its methods may be called from any goroutine.
// Close it.
type Coordinator struct {
	layout
	client    *clientv3.Client
	close     func() error // of client, once
	logins    *login       // nil without a user
	frame     *campaign.Frame
	campaigns *campaign.Campaigns[*session, *candidate]
	documents *store

	woken func(r fence.Resource, holder string) // for tests: a watch has woken a candidate
}

var _ documents.Coordinator = (*Coordinator)(nil)

// Open connects to the cluster that the URL names and makes sure that it has an issuer. The form is
//
//	etcd://[user:password@]host[:port][,host[:port]…][/prefix]
//	etcds://…[?sslrootcert=FILE][&sslcert=FILE&sslkey=FILE]
//	etcd[s]://user@…?password_file=FILE, or password_command=COMMAND
//
// The port defaults to 2379 and the prefix to /ringfence. User and password are percent-encoded
// where needed. etcds uses TLS: it verifies the members by sslrootcert, or the system's roots, and
// presents the client certificate if there is one. A password in a file, or of a command, is read
// again for each login. Open fails if no member answers within the
// session timeout, or if etcd refuses the credentials.
func Open(ctx context.Context, url string, o Options) (*Coordinator, error) {
	return open(ctx, url, o, nil)
}

// open is Open. change is for tests.
func open(
	ctx context.Context, url string, o Options, change func(*clientv3.Config),
) (*Coordinator, error) {
	a, err := form.Parse(url)
	if err != nil {
		return nil, err
	}
	c := &Coordinator{layout: layout{a.Path}}
	hosts := strings.Join(a.Hosts, ",")
	c.frame = campaign.NewFrame(campaign.Settings{
		Kind: "etcd", Where: hosts, Timeout: o.SessionTimeout, Logger: o.Logger, Refused: refused,
		Ends:    ends,
		Failure: func(last error) error { return failure(hosts, last) },
	})
	c.campaigns = campaign.New(c.frame, c.grant)
	c.documents = &store{Coordinator: c}
	if err := c.connect(a, change); err != nil {
		c.frame.End()
		return nil, err
	}
	_, err = campaign.AskWithin(ctx, c.frame, "log in", c.frame.RequestTimeout(), c.signed)
	if err == nil {
		_, err = c.Issuer(ctx)
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// form is the form of a URL.
var form = campaign.Form{Kind: "etcd", Scheme: "etcd", Port: "2379",
	BadPart: func(part string) bool {
		return strings.ContainsFunc(part, func(r rune) bool { return r <= ' ' || r == '%' })
	}}

// connect makes the client. It sends nothing yet.
func (c *Coordinator) connect(a campaign.Address, change func(*clientv3.Config)) (err error) {
	scheme := "http://"
	if a.TLS != nil {
		scheme = "https://"
	}
	cfg := clientv3.Config{
		Context: c.frame.Context(), TLS: a.TLS,
		DialTimeout: c.frame.RequestTimeout(), DialKeepAliveTime: 10 * time.Second,
		DialKeepAliveTimeout: 5 * time.Second, MaxCallSendMsgSize: 2 << 20, Logger: zap.NewNop(),
	}
	for _, host := range a.Hosts {
		cfg.Endpoints = append(cfg.Endpoints, scheme+host)
	}
	// The library's own waits grow from one second to two minutes, so a short outage would end a term.
	again := backoff.Config{
		BaseDelay: 50 * time.Millisecond, Multiplier: 2, Jitter: 0.2,
		MaxDelay: min(c.frame.Timeout/10, time.Second),
	}
	cfg.DialOptions = append(cfg.DialOptions, grpc.WithConnectParams(
		grpc.ConnectParams{Backoff: again, MinConnectTimeout: c.frame.Timeout / 4}))
	if change != nil {
		change(&cfg)
	}
	if a.User != "" {
		c.logins = newLogin(a.User, a.Password, a.Changing)
		cfg.DialOptions = append(slices.Clone(cfg.DialOptions),
			grpc.WithChainUnaryInterceptor(c.logins.intercept))
	}
	if c.client, err = clientv3.New(cfg); err != nil {
		return err
	}
	c.close = sync.OnceValue(c.client.Close)
	return nil
}

// signed is a context for a request that intercept does not sign, because it is a stream.
func (c *Coordinator) signed(ctx context.Context) (signed, error) {
	return c.logins.sign(ctx, c.client.ActiveConnection())
}

// watch is the library's Watch, in a stream under the present token. New watches on a stream whose
// token has expired are refused, for as long as an older watch keeps the stream open.
func (c *Coordinator) watch(
	ctx context.Context, key string, o ...clientv3.OpOption,
) clientv3.WatchChan {
	return c.client.Watch(c.logins.attach(ctx), key, o...)
}

// Close loses the terms that were won here (their cause matches fence.ErrResigned), ends the
// campaigns with ErrClosed, and waits for every goroutine. It does not wait for the holders' work:
// resign first.
func (c *Coordinator) Close() error {
	c.frame.End()
	c.frame.Wait() // sessions revoke their leases
	if err := c.close(); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("close the etcd client: %w", err)
	}
	return nil
}

// Campaign implements fence.Elector. While no member answers it keeps trying; if ctx ends then, the
// error has the last failure.
func (c *Coordinator) Campaign(
	ctx context.Context, r fence.Resource, holder string,
) (*fence.Term, error) {
	return c.campaigns.Campaign(ctx, r, holder)
}

// ask is campaign.Ask.
func ask[T any](
	ctx context.Context, c *Coordinator, what string, try func(context.Context) (T, error),
) (T, error) {
	return campaign.Ask(ctx, c.frame, what, try)
}
