package postgres

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/campaign"
)

// Options change how a Coordinator works. The zero value is good.
type Options struct {
	// SessionTimeout is how long the next leader waits for a crashed one. Default 10 s, at least 1
	// s.
	SessionTimeout time.Duration

	// Logger gets the retries. Default: nothing is logged.
	Logger *slog.Logger
}

var (
	// ErrClosed is returned by calls on a closed Coordinator.
	ErrClosed = errors.New("the Postgres coordinator is closed")
	// ErrUnreachable is returned when the server has not answered in time.
	ErrUnreachable = errors.New("the Postgres server did not answer in time")
)

const (
	defaultSessionTimeout = 10 * time.Second
	leastSessionTimeout   = time.Second
	leastRequestTimeout   = 2 * time.Second
)

// The connections of a Coordinator: at most so many, opened when they are needed. One more listens.
const (
	callsMost = 8
	beatsMost = 2 // a heartbeat never waits for a call
	tellsMost = 1
)

// Coordinator holds elections in one Postgres database. Its methods may be called from any
// goroutine. Close it.
type Coordinator struct {
	address  address
	calls    *pool
	beats    *pool
	tells    *pool
	listener *listener
	teller   *teller
	timeout  time.Duration // of sessions
	log      *slog.Logger

	ctx   context.Context // ends at Close with ErrClosed
	close context.CancelCauseFunc

	campaigns *campaign.Campaigns[*session, *candidate]
	enrolling turns
	documents *store

	mu     sync.Mutex
	closed bool
	work   sync.WaitGroup // calls, campaigns, terms, watches, sessions and the listener

	woken func(r fence.Resource, holder string) // for tests: a notice has woken a candidate
}

var _ fence.Coordinator = (*Coordinator)(nil)

// Open connects to the database that the URL names, and installs the schema ringfence_elections if
// it is missing and the role may create it. Otherwise Open returns a *fence.SetupError that says
// what an operator has to run. The URL is one of libpq, such as
//
//	postgres://app@database/shop
//	postgres://app@h1,h2,h3/shop       the one of them that is the primary
//	postgres://app@pooler/shop?listen=off
//
// listen=off is needed behind a pooler such as PgBouncer, in transaction or session mode: the
// Coordinator then polls. Open fails if the server does not answer within the session timeout or
// refuses the login, and with a *fence.SetupError on a standby.
func Open(ctx context.Context, url string, o Options) (*Coordinator, error) {
	a, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	return open(ctx, a, o)
}

func open(ctx context.Context, a address, o Options) (*Coordinator, error) {
	c := &Coordinator{
		address: a, calls: newPool(a.cfg, callsMost), beats: newPool(a.cfg, beatsMost),
		tells:   newPool(a.cfg, tellsMost),
		timeout: o.SessionTimeout, log: o.Logger,
		enrolling: turns{queue: map[fence.Resource]*queue{}},
	}
	if c.timeout <= 0 {
		c.timeout = defaultSessionTimeout
	}
	c.timeout = max(c.timeout, leastSessionTimeout)
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	c.log = c.log.With("postgres", a.String())
	c.listener = &listener{c: c, wanted: map[string]map[*subscription]bool{}}
	c.teller = &teller{c: c}
	c.ctx, c.close = context.WithCancelCause(context.Background())
	c.documents = &store{c}
	c.campaigns = campaign.New(campaign.Options[*session]{
		Open: c.openSession, Closed: c.ctx, Go: c.work.Go, Refused: refused, Log: c.log,
	})
	if err := c.prepare(ctx); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// prepare makes sure that there is a schema of our version and that the role may use it.
func (c *Coordinator) prepare(ctx context.Context) error {
	standby := false
	version, err := ask(ctx, c, "open the coordinator",
		func(ctx context.Context, conn *pgx.Conn) (int, error) {
			version, err := installed(ctx, conn)
			if standby = errors.Is(err, errStandby); standby {
				return 0, nil
			}
			if err == nil && version < Version {
				err = errNotInstalled
			}
			return version, err
		})
	switch {
	case err != nil:
		return err
	case standby:
		return errStandby
	case version > Version:
		return tooNew(version)
	}
	_, err = c.Issuer(ctx)
	return err
}

// install installs the schema, if the role may.
func (c *Coordinator) install(ctx context.Context, conn *pgx.Conn) (struct{}, error) {
	err := install(ctx, conn)
	if err == nil {
		c.log.Info("the schema ringfence_elections is installed")
	}
	return struct{}{}, err
}

// requestTimeout is how long a call waits for an answer: a session timeout, 2 s at least.
func (c *Coordinator) requestTimeout() time.Duration { return max(c.timeout, leastRequestTimeout) }

// tick is how often the next in line looks when it cannot listen.
func (c *Coordinator) tick() time.Duration {
	return max(min(c.timeout/10, 500*time.Millisecond), 50*time.Millisecond)
}

// Close loses the terms that were won here (their cause matches fence.ErrResigned), ends the
// campaigns with ErrClosed, and waits for every goroutine. It does not wait for the holders' work:
// resign first. If the server does not answer, connections to it are closed in the background,
// within 15 s.
func (c *Coordinator) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.close(ErrClosed)
	c.work.Wait()
	c.calls.close()
	c.beats.close()
	c.tells.close()
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
