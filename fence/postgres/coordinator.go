package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/fence/internal/campaign"
	"github.com/ringfence/ringfence/internal/postgres/pgschema"
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
	ErrClosed = campaign.ErrClosed
	// ErrUnreachable is returned when the server has not answered in time.
	ErrUnreachable = campaign.ErrUnreachable
)

// The connections of a Coordinator: at most so many, opened when they are needed. One more listens.
const (
	maxCalls = 8
	maxBeats = 2 // a heartbeat never waits for a call
	maxTells = 1
)

// Coordinator holds elections in one Postgres database. Its methods may be called from any
// goroutine. Close it.
type Coordinator struct {
	address   address
	calls     *pool
	beats     *pool
	tells     *pool
	listener  *listener
	teller    *teller
	frame     *campaign.Frame
	campaigns *campaign.Campaigns[*session, *candidate]
	enrolling turns
	documents *store
	opened    atomic.Bool // Open has succeeded

	woken func(r fence.Resource, holder string) // for tests: a notice has woken a candidate
}

var _ documents.Coordinator = (*Coordinator)(nil)

// Open connects to the database that the URL names, and installs the schema ringfence if
// it is missing and the role may create it. Otherwise Open returns a *fence.SetupError that says
// what an operator has to run. The URL is one of libpq, such as
//
//	postgres://app@database/shop
//	postgres://app@h1,h2,h3/shop       the one of them that is the primary
//	postgres://app@pooler/shop?listen=off
//	postgres://app@database/shop?password_file=FILE
//	postgres://app@database/shop?password_command=COMMAND
//
// A password in a file, or of a command, is read again for each new connection. The command is
// split at white space and runs without a shell. listen=off is needed behind a pooler such as
// PgBouncer, in transaction or session mode: the Coordinator then polls. Open fails if the server
// does not answer within the session timeout or refuses the login, and with a *fence.SetupError on
// a standby.
func Open(ctx context.Context, url string, o Options) (*Coordinator, error) {
	a, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	return open(ctx, a, o)
}

func open(ctx context.Context, a address, o Options) (*Coordinator, error) {
	timeout := o.SessionTimeout
	if timeout > 0 {
		timeout = max(timeout, time.Second)
	}
	c := &Coordinator{
		address: a, calls: newPool(a, maxCalls), beats: newPool(a, maxBeats),
		tells: newPool(a, maxTells), enrolling: turns{queue: map[fence.Resource]*queue{}},
	}
	c.frame = campaign.NewFrame(campaign.Settings{
		Kind: "Postgres", Where: a.String(), Timeout: timeout, Logger: o.Logger, Refused: c.refused,
		Ends: ends,
	})
	c.campaigns = campaign.New(c.frame, c.openSession)
	c.listener = &listener{c: c, wanted: map[string]map[*subscription]bool{}}
	c.teller = &teller{c: c}
	c.documents = &store{c}
	if err := c.prepare(ctx); err != nil {
		_ = c.Close()
		return nil, err
	}
	c.opened.Store(true)
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
			if err == nil && version < pgschema.Version {
				err = errNotInstalled
			}
			return version, err
		})
	switch {
	case err != nil:
		return err
	case standby:
		return errStandby
	case version > pgschema.Version:
		return tooNew(fmt.Errorf("the database has schema version %d, this program knows %d", version,
			pgschema.Version))
	}
	_, err = c.Issuer(ctx)
	return err
}

// install installs the schema, if the role may.
func (c *Coordinator) install(ctx context.Context, conn *pgx.Conn) (struct{}, error) {
	err := install(ctx, conn)
	if err == nil {
		c.frame.Log.Info("the schema ringfence is installed")
	}
	return struct{}{}, err
}

// tick is how often the next in line looks when it cannot listen.
func (c *Coordinator) tick() time.Duration {
	return max(min(c.frame.Timeout/10, 500*time.Millisecond), 50*time.Millisecond)
}

// Close loses the terms that were won here (their cause matches fence.ErrResigned), ends the
// campaigns with ErrClosed, and waits for every goroutine. It does not wait for the holders' work:
// resign first. If the server does not answer, connections to it are closed in the background,
// within 15 s.
func (c *Coordinator) Close() error {
	c.frame.End()
	c.frame.Wait()
	c.calls.close()
	c.beats.close()
	c.tells.close()
	return nil
}

// Campaign implements fence.Elector. While the server does not answer, has no such database or
// refuses the login, it keeps trying; if ctx ends then, the error has the last failure.
func (c *Coordinator) Campaign(
	ctx context.Context, r fence.Resource, holder string,
) (*fence.Term, error) {
	return c.campaigns.Campaign(ctx, r, holder)
}
