package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/fence"
)

// Options change how a Coordinator works; the zero value is good.
type Options struct {
	// SessionTimeout is asked of the ensemble, which grants what lies within its own limits (2 to 20 ticks, unless set
	// otherwise). It is how long a crashed leader holds up the next. Default 10 s.
	SessionTimeout time.Duration

	// DocumentLimit is how many bytes of data one of Documents may have. Default 1,000,000: ZooKeeper's own limit, its
	// jute.maxbuffer, is 1,048,575 for the whole request. Set it lower or higher where the servers and their clients have
	// another one.
	DocumentLimit int

	// Logger is told of retries, and at debug level of what the ZooKeeper library says. Default: nothing is logged.
	Logger *slog.Logger
}

const (
	defaultSessionTimeout = 10 * time.Second
	defaultDocumentLimit  = 1_000_000
	leastPatience         = 2 * time.Second
)

// ErrClosed is returned by calls on a closed Coordinator.
var ErrClosed = errors.New("the ZooKeeper coordinator is closed")

// Coordinator holds elections in one ensemble. Its methods may be called from any goroutine. Close it.
type Coordinator struct {
	address       address
	timeout       time.Duration
	documentLimit int
	log           *slog.Logger
	acl           []zk.ACL

	ctx   context.Context // ends at Close with ErrClosed
	close context.CancelCauseFunc
	eyes  eyes

	mu      sync.Mutex
	closed  bool
	failure error          // the last one, until there is an answer
	work    sync.WaitGroup // campaigns, keepers of terms, and sessions being closed

	probe probe
}

// probe is what tests look at. Its functions are nil outside tests.
type probe struct {
	woken func(r fence.Resource, holder string) // a waiting candidate was woken by a watch
	link  func(*link)                           // a connection was made
}

var _ fence.Coordinator = (*Coordinator)(nil)

// Open connects to the ensemble that the URL names and makes sure that it has an issuer. The form is
//
//	zk://[user:password@]host[:port][,host[:port]…][/root]
//
// with port 2181 and root /ringfence when left out, user and password percent-encoded where needed. With credentials
// only this user can read and change the znodes that are created, otherwise everybody can; Open warns
// the logger of others who can depose leaders or make candidates. It fails when no server answers
// within the session timeout, or when the ensemble refuses the credentials.
func Open(ctx context.Context, url string, o Options) (*Coordinator, error) {
	a, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	c := newCoordinator(a, o)
	if _, err := c.Issuer(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	c.warnOfAccess(ctx)
	return c, nil
}

func newCoordinator(a address, o Options) *Coordinator {
	c := &Coordinator{
		address: a, timeout: o.SessionTimeout, documentLimit: o.DocumentLimit, log: o.Logger, acl: zk.WorldACL(zk.PermAll),
	}
	if c.timeout <= 0 {
		c.timeout = defaultSessionTimeout
	}
	if c.documentLimit <= 0 {
		c.documentLimit = defaultDocumentLimit
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	c.log = c.log.With("zookeeper", c.hosts())
	if a.user != "" {
		c.acl = zk.DigestACL(zk.PermAll, a.user, a.password)
	}
	c.ctx, c.close = context.WithCancelCause(context.Background())
	c.eyes.turn = make(chan struct{}, 1)
	return c
}

// Close loses the terms that were won here (their cause matches fence.ErrResigned), ends the campaigns with ErrClosed,
// and waits for every goroutine. It does not wait for the holders' work: resign first.
func (c *Coordinator) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.close(ErrClosed)
	c.closeEyes()
	c.work.Wait()
	return nil
}

// begin counts something among what Close waits for. Call c.work.Done when it has ended.
func (c *Coordinator) begin() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	c.work.Add(1)
	return nil
}

// patience is how long a call that only asks waits for an answer: a session timeout, if that is not very short.
func (c *Coordinator) patience() time.Duration { return max(c.timeout, leastPatience) }

// hosts is for messages.
func (c *Coordinator) hosts() string { return strings.Join(c.address.hosts, ",") }

func (c *Coordinator) issuerPath() string { return c.address.root + "/issuer" }

func (c *Coordinator) electionsPath() string { return c.address.root + "/elections" }

func (c *Coordinator) electionPath(r fence.Resource) string {
	return c.electionsPath() + "/" + string(r)
}

// until is ctx that ends with the Coordinator too.
func (c *Coordinator) until(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(c.ctx, func() { cancel(ErrClosed) })
	return ctx, func() { unhook(); cancel(nil) }
}

// quiet passes what the library says on, at debug level.
type quiet struct{ log *slog.Logger }

// Printf implements zk.Logger.
func (q quiet) Printf(format string, args ...any) { q.log.Debug("zk: " + fmt.Sprintf(format, args...)) }
