package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"time"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks/redismarks"
	"github.com/ringfence/ringfence/internal/refusal"
)

// ParseURL reads the URL of a guard or a Redis, as NewRaiser takes it, for NewClient. Beside what
// the driver's own ParseURL knows, that is password_file or password_command, and with rediss://
// sslmode, sslrootcert, sslcert and sslkey, as libpq has them. A password is read again for each
// new connection.
func ParseURL(url string) (*driver.Options, error) { return redismarks.ParseURL(url) }

// NewClient makes a driver's client for one term, through a guard. Every connection is a session
// under the term's token, and none outlives the term. o is as for the driver's own NewClient;
// NewClient copies it. It overrides two options: ClientName is the claim
// (fence.<resource>.<token>), and the driver does not retry (MaxRetries). A retry after a lost
// answer could apply a command twice, and within a term the fence does not prevent that. An address
// where no guard answers is refused (*fence.SetupError), because there a client name fences
// nothing. Use a Tx there.
//
// Once the term is lost, its connections are closed, none is opened and no command is sent. Errors
// then match fence.ErrLost. A guard's stale error supersedes the term and matches fence.ErrStale.
// Its other refusals match their own errors. A command that was under way when that happened may
// have been run, before a newer leader was admitted: its error also matches ErrUnknown.
//
// A subscription ends with the term too. Its channel does not report that, and keeps dialing in
// vain until it is closed. Close the client as any other; the term keeps no reference to closed
// connections.
func NewClient(term *fence.Term, o *driver.Options) *driver.Client {
	own := *o
	own.DialTimeout = cmp.Or(o.DialTimeout, 5*time.Second)
	b := &termBinding{
		term: term, dial: o.Dialer, onConnect: o.OnConnect, backoff: o.DialerRetryBackoff,
	}
	if b.dial == nil {
		dialOptions := own // the caller's settings, without those set below
		b.dial = driver.NewDialer(&dialOptions)
	}
	c := term.Claim()
	own.MaxRetries = -1
	own.ClientName = refusal.ClientName(c)
	own.Dialer, own.OnConnect, own.DialerRetryBackoff = b.openConn, b.connected, b.retryDelay
	db := driver.NewClient(&own)
	db.AddHook(b)
	return db
}

// termBinding binds a client's connections and commands to a term.
type termBinding struct {
	term      *fence.Term
	dial      func(ctx context.Context, network, addr string) (net.Conn, error)
	onConnect func(ctx context.Context, c *driver.Conn) error // may be nil
	backoff   func(attempt int) time.Duration                 // may be nil
}

// lostError is the error for a command that is not sent because the term is lost. It is nil while
// the term lasts.
func (b *termBinding) lostError() error {
	if b.term.State() != fence.Lost {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrNotRun, context.Cause(b.term.Context()))
}

// openConn dials a connection that ends with the term.
func (b *termBinding) openConn(ctx context.Context, network, addr string) (net.Conn, error) {
	if err := b.lostError(); err != nil {
		return nil, err
	}
	c, err := b.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return closeOnDone(b.term.Context(), c), nil
}

// retryDelay is the pause between the driver's dials. There is none once the term is lost.
func (b *termBinding) retryDelay(attempt int) time.Duration {
	switch {
	case b.term.Context().Err() != nil:
		return 0
	case b.backoff != nil:
		return b.backoff(attempt)
	}
	return 100 * time.Millisecond // the driver's default
}

// connected checks that a guard has admitted this connection: any other server would have taken the
// claim for an ordinary client name. A guard accepts the same claim twice.
func (b *termBinding) connected(ctx context.Context, conn *driver.Conn) error {
	c := b.term.Claim()
	err := conn.Do(ctx, "FENCE", string(c.Resource), c.Token.String()).Err()
	if err != nil && redismarks.NoGuard(err) {
		err = &fence.SetupError{
			What:  "no guard answers at this address, so a session there is not fenced",
			Hint:  "give the guard's address, or run commands under the token in a Tx",
			Cause: err,
		}
	}
	if err != nil {
		// The driver removes the outermost error.
		return fmt.Errorf("the session was not admitted: %w", err)
	}
	if b.onConnect == nil {
		return nil
	}
	return b.onConnect(ctx, conn)
}
