package pgmarks

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/network/backoff"
)

// SQLSTATEs of a server that has no room left.
const (
	NoMemory      = "53200" // for another lock: one session may hold all that there are
	NoConnections = "53300"
)

// NoRoom implements marks.Crowded.
func (s *Store) NoRoom(err error) bool {
	return failedWith(err, NoMemory) || failedWith(err, NoConnections)
}

func failedWith(err error, code string) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.Code == code
}

// EndOlder implements marks.Crowded. It also ends the backends that are leaving.
func (s *Store) EndOlder(ctx context.Context, c fence.Claim) error {
	for n := 1; ; n++ {
		left, err := s.tellOlder(ctx, c)
		if err != nil || left == 0 {
			return err
		}
		backoff.Pause(ctx, backoff.After(n, time.Millisecond, 100*time.Millisecond))
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// tellOlder tells older sessions to end, and returns how many there are. It tries every idle
// connection: one may remember the roles of the sessions, and then it needs no lock.
func (s *Store) tellOlder(ctx context.Context, c fence.Claim) (left int, err error) {
	tell := func(r pgx.Row) error { return r.Scan(&left) }
	idle := s.pool.AcquireAllIdle(ctx)
	for _, conn := range idle {
		defer conn.Release()
	}
	for _, conn := range idle {
		err = tell(conn.QueryRow(ctx, olderSQL, c.Resource, int64(c.Token), c.Issuer))
		if err == nil {
			return left, nil
		}
	}
	if len(idle) == 0 {
		err = s.row(ctx, tell, olderSQL, c.Resource, int64(c.Token), c.Issuer)
	}
	return left, err
}

// Room is how many more connections a server takes of roles for which it reserves none.
type Room struct {
	Most                   int // if there were no connection
	Server, Database, Role int
}

// Least returns the room for a connection of the role to the database.
func (r Room) Least() int { return min(r.Server, r.Database, r.Role) }

// Room returns the room for connections to a database as a role. It does not count logins that are
// under way.
func (s *Store) Room(ctx context.Context, database, role string) (r Room, err error) {
	err = s.row(ctx, func(row pgx.Row) error {
		return row.Scan(&r.Most, &r.Server, &r.Database, &r.Role)
	}, roomSQL, database, role)
	return r, err
}
