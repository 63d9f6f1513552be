package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/network/backoff"
)

const (
	firstWarm = time.Second // after Open: a program that opens a store for a moment needs no warmth
	nextSweep = time.Minute
	sweepTime = 10 * time.Second // bounds one

	leaveAfter = 50 * time.Millisecond // the newcomer's answer, and the guards that let them go, come first
	leaveTime  = time.Second           // bounds Close
)

// sweep removes the records of dead sessions every minute, if their guards could not do so, and keeps
// a connection warm, unless the store only raises. It ends backends that are leaving, then and after each
// revocation.
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
	_ = s.exec(ctx, leaveSQL) // the next revocation and the next sweep do so too
}

// leaveAtLast does so before the store is closed, if it has not been done since a revocation.
func (s *Store) leaveAtLast() {
	select {
	case <-s.revoked:
		s.leave()
	default:
	}
}

// warm runs the statements of a take-over for no resource, so that they change nothing. A take-over
// is rare. Without this it would find a connection on which the server has yet to parse, compile
// and plan them, which takes longer than the take-over.
func (s *Store) warm(ctx context.Context) {
	var run string
	if s.row(ctx, func(r pgx.Row) error { return r.Scan(&run) }, beginRunSQL) != nil {
		return
	}
	for _, call := range []struct {
		sql  string
		args []any
	}{
		{identifySQL, []any{0, ""}},
		{registerSQL, []any{0, time.Time{}, run, []string{}, []int64{}, []string{}, ""}},
		{raiseSQL, []any{"", 0, "", "", "", ""}},
		{revokeSQL, []any{"", 0, "", 0, 0}},
		{releaseSQL, []any{[]int64{}, []time.Time{}, []string{}, []bool{}}},
	} {
		if s.exec(ctx, call.sql, call.args...) != nil {
			return
		}
	}
}
