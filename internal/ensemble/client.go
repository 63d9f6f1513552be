package ensemble

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// Options change how a Client works; the zero value is good.
type Options struct {
	// SessionTimeout is asked of the ensemble for each session. It is also how long a call waits
	// for an answer, 2 s at least. Default 10 s.
	SessionTimeout time.Duration

	// MaxData is how many bytes of data a request in the client's own session may carry. Default
	// 1,000,000: ZooKeeper's own limit, its jute.maxbuffer, is 1,048,575 for the whole request.
	MaxData int

	// Logger is told of retries, and at debug level of what the ZooKeeper library says. Default:
	// nothing is logged.
	Logger *slog.Logger
}

const (
	defaultSessionTimeout = 10 * time.Second
	defaultMaxData        = 1_000_000
	leastRequestTimeout   = 2 * time.Second
)

// Client speaks to one ensemble. Its methods may be called from any goroutine. Close it.
type Client struct {
	address Address
	timeout time.Duration
	maxData int
	log     *slog.Logger
	acl     []zk.ACL

	ctx     context.Context // ends at Close with ErrClosed
	close   context.CancelCauseFunc
	current current

	mu      sync.Mutex
	closed  bool
	failure error          // the last one, until there is an answer
	work    sync.WaitGroup // calls, what Begin and Go count, and sessions being closed

	onLink func(*link) // for tests, when a connection was made; nil outside
}

// New makes a client of the ensemble that the URL names. It connects with the first call.
func New(url string, o Options) (*Client, error) {
	a, err := ParseURL(url)
	if err != nil {
		return nil, err
	}
	return newClient(a, o), nil
}

func newClient(a Address, o Options) *Client {
	c := &Client{address: a, timeout: o.SessionTimeout, maxData: o.MaxData, log: o.Logger,
		acl: zk.WorldACL(zk.PermAll)}
	if c.timeout <= 0 {
		c.timeout = defaultSessionTimeout
	}
	if c.maxData <= 0 {
		c.maxData = defaultMaxData
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	c.log = c.log.With("zookeeper", c.Hosts())
	if a.User != "" {
		c.acl = zk.DigestACL(zk.PermAll, a.User, a.Password)
	}
	c.ctx, c.close = context.WithCancelCause(context.Background())
	c.current.changing = make(chan struct{}, 1)
	return c
}

// Close ends the client's calls with ErrClosed, closes its own session, and waits for all calls and
// for what Begin and Go have started. Whoever opened another session closes it when Context ends.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.close(ErrClosed)
	c.closeCurrent()
	c.work.Wait()
	return nil
}

// Begin starts something that Close waits for. Call Done when it has ended.
func (c *Client) Begin() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	c.work.Add(1)
	return nil
}

// Done ends what Begin has started.
func (c *Client) Done() { c.work.Done() }

// Go starts a goroutine that Close waits for. Call it between Begin and Done.
func (c *Client) Go(work func()) { c.work.Go(work) }

// Context ends at Close, with ErrClosed.
func (c *Client) Context() context.Context { return c.ctx }

// WithClose returns a context that ends with ctx, and with the Client.
func (c *Client) WithClose(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(c.ctx, func() { cancel(ErrClosed) })
	return ctx, func() { unhook(); cancel(nil) }
}

// RequestTimeout is how long a call waits for an answer: a session timeout, 2 s at least.
func (c *Client) RequestTimeout() time.Duration { return max(c.timeout, leastRequestTimeout) }

// Address is what the URL said.
func (c *Client) Address() Address { return c.address }

// Hosts lists the servers, for messages.
func (c *Client) Hosts() string { return strings.Join(c.address.Hosts, ",") }

// Root is the path below which all znodes of Ringfence are.
func (c *Client) Root() string { return c.address.Root }

// ACL is the access that znodes are created with.
func (c *Client) ACL() []zk.ACL { return c.acl }

// Log is the logger of Options, or one that logs nothing.
func (c *Client) Log() *slog.Logger { return c.log }

// debugLogger passes what the library says on, at debug level.
type debugLogger struct{ log *slog.Logger }

// Printf implements zk.Logger.
func (l debugLogger) Printf(format string, args ...any) {
	l.log.Debug("zk: " + fmt.Sprintf(format, args...))
}
