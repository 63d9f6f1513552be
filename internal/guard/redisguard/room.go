package redisguard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/marks/redismarks"
	"github.com/ringfence/ringfence/internal/network/backoff"
)

var _ guard.Bounded = (*Protocol)(nil)

// Bound implements guard.Bounded.
func (p *Protocol) Bound(ctx context.Context) (connections int, setting string, err error) {
	_, most, err := p.o.Store.Clients(ctx)
	return most, "maxclients", err
}

// errFull: Redis takes no more connections. Its text begins as that of Redis, which drivers know.
var errFull = errors.New("max number of clients reached: Redis takes no more connections " +
	"(maxclients), and nothing was executed; connect again, and let an operator raise maxclients or " +
	"find out who holds them")

// first waits for the server's first answer. Redis accepts every connection, and only then says
// that it has too many.
func (u *upstream) first() error {
	for !u.answered && len(u.pending) == 0 {
		if err := u.fill(); err != nil {
			return err
		}
	}
	if !u.answered && redismarks.SaysFull(u.pending) {
		return errFull
	}
	u.answered = true
	return nil
}

// send writes to the server. A server that has refused the connection may have reset it, and its
// reason is still to be read.
func (u *upstream) send(b []byte) error {
	_, err := u.Conn.Write(b)
	if !u.answered && disconnected(err) {
		return nil
	}
	return err
}

// isFull reports whether Redis has refused the upstream connection because it has too many. Nothing
// that was sent on it was executed.
func (c *conn) isFull(ctx context.Context, err error) bool {
	if errors.Is(err, errFull) {
		return true
	}
	unanswered := c.upstream != nil && !c.upstream.answered
	return err != nil && unanswered && disconnected(err) && c.p.o.Store.Full(ctx)
}

// dial connects to Redis. With TLS a full server ends the connection before it says anything.
func (c *conn) dial(ctx context.Context) (net.Conn, error) {
	server, err := c.p.o.Store.Dial(ctx)
	switch {
	case err == nil:
		return server, nil
	case disconnected(err) && c.p.o.Store.Full(ctx):
		return nil, errFull
	}
	return nil, fmt.Errorf("cannot reach Redis: %w", err)
}

// noRoom refuses a client without a token that Redis has no connection for. Those that keep the
// guard waiting for their clients are evicted, so the next try may find one.
func (c *conn) noRoom() error {
	c.client.Seat.Starve()()
	_ = c.closeWith(errFull)
	return guard.NoRoom
}

// intoRoom enters again until Redis has room, for claims that the coordinator confirms. Until then
// the clients without a token make room. If that is not enough the older sessions are ended, which
// may be what has used it up. The client has not logged in by then, so the coordinator alone
// decides: a claim that it does not confirm is refused.
func (c *conn) intoRoom(
	admission context.Context, cmd claimCommand, enter func() ([]byte, error),
) (reply []byte, err error) {
	if !c.p.o.Admission.Authority.Verifies() {
		c.client.Seat.Starve()()
		return nil, errFull
	}
	if err := c.p.o.Admission.Leads(admission, cmd.claims); err != nil {
		return nil, err
	}
	fed := c.client.Seat.Starve()
	defer fed()
	made := false
	for n := 1; ; n++ {
		backoff.Pause(admission, backoff.After(n, 5*time.Millisecond, 200*time.Millisecond))
		if err := admission.Err(); err != nil {
			return nil, fmt.Errorf("%w: %w", errFull, err)
		}
		c.disconnect()
		if reply, err = enter(); !c.isFull(admission, err) {
			return reply, err
		}
		made = made || c.p.o.Admission.MakeRoom(admission, cmd.claims) == nil
	}
}

// disconnect closes an upstream connection that Redis has refused.
func (c *conn) disconnect() {
	if c.upstream != nil {
		c.upstream.unhook()
		_ = c.upstream.Close()
		c.upstream = nil
	}
}

// loginSlot waits for a login slot: every upstream connection of a client that is not admitted has
// one.
func (c *conn) loginSlot(ctx context.Context) error {
	if c.slot {
		return nil
	}
	err := c.client.Seat.Login(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("too many connections without a token wait for Redis (GUARD_MAX_LOGINS): %w",
			err)
	}
	c.slot = err == nil
	return err
}

// answersWhenever takes back the time by which the server must have answered.
func (c *conn) answersWhenever(ctx context.Context) {
	if c.upstream != nil {
		c.upstream.answersBy(ctx, time.Time{})
	}
}
