package redis

import (
	"context"
	"errors"
	"time"
)

// errUnused ends the relay of a session that was idle for too long.
var errUnused = errors.New("the session was idle for too long")

// restTime bounds the question whether a session is at rest.
const restTime = time.Second

// endUnused reports whether the session has to end. Then nothing more passes. Redis is asked first:
// the client may wait in BLPOP, or for messages.
func (s *session) endUnused(ctx context.Context, unused func() bool) bool {
	ctx, cancel := context.WithTimeout(ctx, restTime)
	defer cancel()
	if rests, err := s.p.o.Store.AtRest(ctx, s.session); err != nil || !rests {
		return false
	}
	s.up.mu.Lock()
	defer s.up.mu.Unlock()
	s.up.unused = !s.up.draining && !s.up.stopped && s.up.atBoundary() && unused()
	return s.up.unused
}
