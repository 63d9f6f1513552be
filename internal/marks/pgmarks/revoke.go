package pgmarks

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/refusal"
)

// resignalAfter is how long a backend has to end before it is signalled again. Postgres loses no
// signals; this covers causes that we do not know of.
const resignalAfter = time.Second

// Guards let their own sessions go faster than Postgres ends the backends. If there are many, they
// are told of the raise, and the server ends what is left a moment later. A guard needs some 50 ms
// for a thousand sessions on two processors.
const (
	many         = 16
	patience     = 30 * time.Millisecond
	patienceEach = 250 * time.Microsecond
)

// Revoke implements marks.Store. It signals every older backend, also those with a transaction that
// has entered under an older token. Then it polls pg_stat_activity and pg_locks
// until they have none of them. Postgres removes a backend from pg_stat_activity only after it has
// rolled back the transaction and released its locks (src/backend/utils/activity/backend_status.c:
// pgstat_beshutdown_hook runs after ShutdownPostgres). Backends that are leaving are ended a moment
// later, because nobody waits for them.
func (s *Store) Revoke(
	ctx context.Context, _ marks.SessionID, c fence.Claim,
) (ended int, err error) {
	if !s.program { // revokeOwnSQL does that
		defer s.leaveSoon()
	}
	start := time.Now()
	sql := revokeSQL
	if s.program {
		sql = revokeOwnSQL
	}
	var signalled time.Time // when those who remained were last signalled
	// They outlive an iteration: when ctx ends during a query, the one before it tells who is left.
	var remaining []int32
	var described []string
	for {
		var current bool
		var gone int
		var blocked, prepared []string
		atMost := signalAtMost(len(remaining), time.Since(start), time.Since(signalled))
		err := s.rowFor(ctx, []string{string(c.Resource)}, func(r pgx.Row) error {
			return r.Scan(&current, &gone, &remaining, &blocked, &prepared, &described)
		}, sql,
			c.Resource, int64(c.Token), c.Issuer, atMost)
		if err != nil {
			return ended, unfinished(ctx, c, remaining, described, err)
		}
		ended += gone
		switch {
		case len(remaining) <= atMost:
			signalled = time.Now()
		case signalled.IsZero():
			s.tell(ctx, c.Resource)
		}
		switch {
		case !current:
			return ended, s.overtaken(ctx, c)
		case len(blocked) > 0:
			return ended, s.blockedBy(c, remaining, blocked)
		case len(prepared) > 0:
			return ended, preparedBy(c, prepared)
		case len(remaining) == 0:
			return ended, nil
		}
		select {
		case <-ctx.Done():
			return ended, unfinished(ctx, c, remaining, described, context.Cause(ctx))
		case <-time.After(untilNextLook(len(remaining), time.Since(start))):
		}
	}
}

// leaveSoon has the sweeper end the backends that are leaving.
func (s *Store) leaveSoon() {
	select {
	case s.revoked <- struct{}{}:
	default: // it is to do so anyway
	}
}

// tell notifies the guards that listen. It may fail, for instance because the server's queue of
// notifications is full.
func (s *Store) tell(ctx context.Context, r fence.Resource) {
	_ = s.exec(ctx, tellSQL, r)
}

// signalAtMost returns how many sessions may remain for all of them to be signalled now. left is
// how many there were at the last look.
func signalAtMost(left int, taken, sinceLast time.Duration) int {
	switch {
	case sinceLast <= resignalAfter:
		return 0
	case taken < patience+time.Duration(left)*patienceEach:
		return many
	}
	return math.MaxInt32
}

// untilNextLook returns how long to wait before the server is asked again who is left. A backend
// takes some tenths of a millisecond to end, one after the other on a busy machine, and each look
// takes time from them. So the more are left, and the longer it has taken, the longer is the wait.
func untilNextLook(left int, taken time.Duration) time.Duration {
	const shortest, longest = 250 * time.Microsecond, 20 * time.Millisecond
	each := time.Duration(left) * 100 * time.Microsecond
	return min(max(each, taken/8, shortest), longest)
}

// overtaken explains why a claim is no longer the mark.
func (s *Store) overtaken(ctx context.Context, c fence.Claim) error {
	found, err := s.Marks(ctx, c.Resource)
	if err != nil {
		return err
	}
	if len(found) == 0 || found[0].Token == c.Token && found[0].Issuer == c.Issuer {
		return fmt.Errorf("the server was restarted or restored, or the mark of %q was, "+
			"while older sessions were being ended", c.Resource)
	}
	if found[0].Issuer != c.Issuer {
		return refusal.OtherIssuer(c, found[0].Token, found[0].Issuer)
	}
	return refusal.Stale(c, found[0].Token, found[0].Holder, found[0].Raised)
}

func (s *Store) blockedBy(c fence.Claim, pids []int32, roles []string) error {
	slices.Sort(roles)
	roles = slices.Compact(roles)
	return refusal.Unrevoked(c, fmt.Sprintf(
		"the role %[1]s may not end sessions of role %[2]s (backend pids %[3]v): "+
			"GRANT pg_signal_backend TO %[1]s; where a service does not let you, grant it each of "+
			"those roles; only a superuser ends a superuser's session, so let leaders log in as ordinary "+
			"roles",
		identifier(s.cfg.User), strings.Join(roles, ", "), pids), nil)
}

func preparedBy(c fence.Claim, gids []string) error {
	return refusal.Unrevoked(c, fmt.Sprintf(
		"transactions %q entered under an older token and were prepared, so they outlive their "+
			"sessions: COMMIT PREPARED or ROLLBACK PREPARED each, then try again", gids), nil)
}

func unfinished(
	ctx context.Context, c fence.Claim, pids []int32, described []string, err error,
) error {
	if ctx.Err() == nil {
		return err
	}
	return refusal.Unrevoked(c, fmt.Sprintf(
		"told to end, and still alive: %s (backend pids %v). A backend that does not end is in a "+
			"function that swallows the request, or waits for a disk or the network: a superuser "+
			"ends it with select pg_terminate_backend(pid), or by restarting the server",
		strings.Join(described, "; "), pids), err)
}
