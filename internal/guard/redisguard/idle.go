package redisguard

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// errUnused ends the relay of a session that was idle for too long, if Redis does not answer the
// sentinel either.
var errUnused = errors.New("the session was idle for too long")

// restTime bounds the question whether a session is at rest.
const restTime = time.Second

// endUnused ends the session as a shutdown does: the client gets what Redis has still to answer,
// and then the reason. Redis is asked first: the client may wait in BLPOP, or for messages. That
// answer is a guess, because commands may be on their way to a server that is slow. The sentinel is
// behind them.
func (s *session) endUnused(ctx context.Context, unused func() bool, stop context.CancelCauseFunc) {
	if s.up.endsUnused() { // a limit ago
		stop(errUnused)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, restTime)
	defer cancel()
	if rests, err := s.p.o.Store.AtRest(ctx, s.session); err != nil || !rests {
		return
	}
	if s.up.stopsUnused(unused) {
		_, _ = s.upstream.Conn.Write(s.up.injected.sentinel(fmt.Errorf(
			"nothing has passed for %s, so the session has ended; connect again", s.p.o.SessionIdleTimeout)))
	}
}

func (u *up) endsUnused() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.unused
}

// stopsUnused reports whether endUnused has to send the sentinel.
func (u *up) stopsUnused(unused func() bool) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.draining || u.stopped || !u.atBoundary() || !unused() {
		return false
	}
	u.stopped, u.unused = true, true
	return true
}
