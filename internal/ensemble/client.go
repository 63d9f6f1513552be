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

// Options of a Client. The zero value has useful defaults.
type Options struct {
	// SessionTimeout is the timeout that the client requests for each session. It is also how long
	// a call waits for an answer, at least 2 s. Default 10 s.
	SessionTimeout time.Duration

	// MaxData is the maximum data of a request in the client's own session, in bytes. Default
	// 1,000,000; ZooKeeper's own limit, jute.maxbuffer, is 1,048,575 for the whole request.
	MaxData int

	// Logger gets a message for each retry, and at debug level the messages of the ZooKeeper
	// library. Default: nothing is logged.
	Logger *slog.Logger
}

const (
	defaultSessionTimeout = 10 * time.Second
	defaultMaxData        = 1_000_000
	leastRequestTimeout   = 2 * time.Second
)

// Client talks to one ensemble. Its methods may be called from any goroutine. Call Close when it is
// no longer needed.
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
	work    sync.WaitGroup // calls, what Begin and Go have started, and sessions being closed

	onLink func(*link) // for tests: called for each new connection; may be nil
}

// New makes a client of the ensemble in the URL. It connects at the first call.
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
// for what Begin and Go have started. Callers of NewSession close their sessions when Context ends.
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

// Done says that what Begin has started has ended.
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

// RequestTimeout returns how long a call waits for an answer: a session timeout, at least 2 s.
func (c *Client) RequestTimeout() time.Duration { return max(c.timeout, leastRequestTimeout) }

// Address returns the parts of the URL.
func (c *Client) Address() Address { return c.address }

// Hosts returns the list of servers, for messages.
func (c *Client) Hosts() string { return strings.Join(c.address.Hosts, ",") }

// Root returns the path below which all znodes of Ringfence are.
func (c *Client) Root() string { return c.address.Root }

// ACL returns the ACL of the znodes that this client creates.
func (c *Client) ACL() []zk.ACL { return c.acl }

// Log returns the logger of Options, or one that logs nothing.
func (c *Client) Log() *slog.Logger { return c.log }

// debugLogger logs the library's messages at debug level.
type debugLogger struct{ log *slog.Logger }

// Printf implements zk.Logger.
func (l debugLogger) Printf(format string, args ...any) {
	l.log.Debug("zk: " + fmt.Sprintf(format, args...))
}
