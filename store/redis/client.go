package redis

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"time"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
	marks "github.com/ringfence/ringfence/internal/marks/redis"
	"github.com/ringfence/ringfence/internal/refusal"
)

// NewClient makes a driver's client for one term, through a guard: every connection is a session under the term's token,
// and none outlives the term. o is as for the driver's own NewClient, and is not kept. Whatever it says, ClientName is the
// claim (fence.<resource>.<token>), and MaxRetries is none: the driver would send a command again whose answer was lost,
// and within a term the fence does not keep that from having its effect twice. An address where no guard answers is
// refused (*fence.SetupError): there a client name fences nothing. Use Run there.
//
// Once the term is lost, connections end, none is opened and no command is sent; what then fails matches fence.ErrLost.
// A guard's stale error supersedes the term and matches fence.ErrStale, its other refusals match theirs. A command that was
// under way when that happened may have been run, before a newer leader was admitted: it matches ErrUnknown too.
//
// A subscription ends with the term too; its channel does not say so, and dials in vain until it is closed. Close the
// client as any other; the term does not hold on to what was closed.
func NewClient(term *fence.Term, o *driver.Options) *driver.Client {
	own := *o
	own.DialTimeout = cmp.Or(o.DialTimeout, 5*time.Second)
	t := &tenure{term: term, dial: o.Dialer, greet: o.OnConnect, backoff: o.DialerRetryBackoff}
	if t.dial == nil {
		dials := own // with the caller's settings, and without what is set below
		t.dial = driver.NewDialer(&dials)
	}
	c := term.Claim()
	own.MaxRetries = -1
	own.ClientName = refusal.ClientName(c)
	own.Dialer, own.OnConnect, own.DialerRetryBackoff = t.open, t.connected, t.redial
	db := driver.NewClient(&own)
	db.AddHook(t)
	return db
}

// tenure is what a client's connections have to do with the term.
type tenure struct {
	term    *fence.Term
	dial    func(ctx context.Context, network, addr string) (net.Conn, error)
	greet   func(ctx context.Context, c *driver.Conn) error // may be nil
	backoff func(attempt int) time.Duration                 // may be nil
}

// lost is the error of what is not sent any more, or nil while the term lasts.
func (t *tenure) lost() error {
	if t.term.State() != fence.Lost {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrNotRun, context.Cause(t.term.Context()))
}

// open dials a connection that ends with the term.
func (t *tenure) open(ctx context.Context, network, addr string) (net.Conn, error) {
	if err := t.lost(); err != nil {
		return nil, err
	}
	c, err := t.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return hold(t.term.Context(), c), nil
}

// redial spaces the driver's dials; a term that is lost is not waited for.
func (t *tenure) redial(attempt int) time.Duration {
	switch {
	case t.term.Context().Err() != nil:
		return 0
	case t.backoff != nil:
		return t.backoff(attempt)
	}
	return 100 * time.Millisecond // the driver's own
}

// connected makes sure that it is a guard that has admitted this connection: anybody else would have taken the client
// name for a name. A guard takes the claim a second time.
func (t *tenure) connected(ctx context.Context, conn *driver.Conn) error {
	c := t.term.Claim()
	err := conn.Do(ctx, "FENCE", string(c.Resource), c.Token.String()).Err()
	if err != nil && marks.NoGuard(err) {
		err = &fence.SetupError{What: "no guard answers at this address, so a session there is not fenced", Hint: "give the guard's address, or run commands under the token with Run", Cause: err}
	}
	if err != nil {
		return fmt.Errorf("the session was not admitted: %w", err) // the driver takes the outermost error off
	}
	if t.greet == nil {
		return nil
	}
	return t.greet(ctx, conn)
}
