package pgmarks

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringfence/ringfence/internal/network/backoff"
	"github.com/ringfence/ringfence/internal/postgres/pglogin"
)

const (
	firstWarm = time.Second // after Open: a program that opens a store for a moment needs no warmth
	nextSweep = time.Minute
	sweepTime = 10 * time.Second // bounds one

	// the newcomer's answer, and the guards that let them go, come first
	leaveAfter = 50 * time.Millisecond
	leaveTime  = time.Second // bounds Close
)

// sweep removes the records of dead sessions every minute, if their guards could not do so, and
// keeps a connection warm, unless the store only raises. It ends backends that are leaving, then
// and after each revocation.
func (s *Store) sweep(ctx context.Context, sweeps bool) {
	next := time.NewTimer(firstWarm)
	defer next.Stop()
	if !sweeps {
		next.Stop()
	}
	for first := true; ; first = false {
		select {
		case <-ctx.Done():
			s.leaveAtLast()
			return
		case <-s.revoked:
			backoff.Pause(ctx, leaveAfter)
			s.leave()
			continue
		case <-next.C:
		}
		bounded, cancel := context.WithTimeout(ctx, sweepTime)
		if !first {
			// Nothing depends on a sweep, and the next may succeed.
			_ = s.exec(bounded, `select ringfence.sweep()`)
		}
		s.warm(bounded)
		cancel()
		next.Reset(nextSweep)
	}
}

// leave ends the backends that are leaving, whoever has let them go. Close waits for it.
func (s *Store) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	_ = s.exec(ctx, endLeavingSQL) // the next revocation and the next sweep do so too
}

// leaveAtLast does so before the store is closed, if it has not been done since a revocation.
func (s *Store) leaveAtLast() {
	select {
	case <-s.revoked:
		s.leave()
	default:
	}
}

// kept is how many connections stay open and warm. While a server is full there is no room for
// another one. One is not enough: a statement may wait for a lock.
const kept = 2

// warm opens as many connections as are kept, and warms them.
func (s *Store) warm(ctx context.Context) {
	for range min(kept, s.pool.Config().MaxConns) {
		var conn *pgxpool.Conn
		// Not loggedIn: while that waits for room, the first connection would be of no use to others.
		err := s.password.Retry(ctx, pglogin.Refused, func() (err error) {
			conn, err = s.pool.Acquire(ctx)
			return err
		})
		if err != nil {
			return
		}
		defer conn.Release() // only then: the next one has to be another one
		warmUp(ctx, conn)
	}
}

// warmUp rehearses on a connection, and looks up what it needs to end a backend. A take-over is
// rare. Without this it would find a connection on which the server has yet to parse, compile and
// plan the statements, which takes longer than the take-over, and takes locks that may be used up
// by then.
func warmUp(ctx context.Context, conn *pgxpool.Conn) {
	if rehearse(ctx, conn) != nil {
		return
	}
	_, _ = conn.Exec(ctx, olderSQL, "", 0, "")
	_, _ = conn.Exec(ctx, rolesSQL)
}

// rehearse runs the statements of a take-over for no resource, so that they change nothing.
func rehearse(ctx context.Context, on interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}) error {
	var run string
	if err := on.QueryRow(ctx, runSQL).Scan(&run); err != nil {
		return err
	}
	for _, call := range []struct {
		sql  string
		args []any
	}{
		{identifySQL, []any{0, ""}},
		{registerSQL, []any{0, time.Time{}, run, []string{}, []int64{}, []string{}, ""}},
		{raiseSQL, []any{"", 0, "", "", "", ""}},
		{revokeSQL, []any{"", 0, "", 0}},
		{releaseSQL, []any{[]int64{}, []time.Time{}, []string{}, []bool{}}},
	} {
		if _, err := on.Exec(ctx, call.sql, call.args...); err != nil {
			return err
		}
	}
	return nil
}
