package guard

import (
	"context"
	"time"
)

// Bounded is a Protocol whose server takes only so many connections.
type Bounded interface {
	// Bound returns how many connections of clients the server takes, and the setting that says so. It
	// may change while the guard serves. It is 0 while the server has not said it.
	Bound(ctx context.Context) (connections int, setting string, err error)
}

// control is about how many connections a guard needs itself.
const control = 6

// within lowers the limits to what a server has room for that takes n connections. The logins get
// an eighth, so that those of several guards leave room, and sessions leave room for twice the
// logins.
func (l Limits) within(n int) Limits {
	if n <= 0 {
		return l
	}
	l.MaxLogins = max(1, min(l.MaxLogins, n/8))
	l.MaxConnections = max(1, min(l.MaxConnections, n-2*l.MaxLogins-control))
	return l
}

// boundTime bounds the question how many connections the server takes.
const boundTime = 5 * time.Second

// bound asks the server how many connections it takes, every now and then until ctx ends.
func (s *Server) bound(ctx context.Context) {
	b, ok := s.Protocol.(Bounded)
	if !ok {
		return
	}
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	for {
		asking, cancel := context.WithTimeout(ctx, boundTime)
		n, setting, err := b.Bound(asking)
		cancel()
		if err == nil && n > 0 {
			s.setRoom(n, setting)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// setRoom lowers the limits to what the server has room for.
func (s *Server) setRoom(n int, setting string) {
	s.limiting.Lock()
	defer s.limiting.Unlock()
	if n == s.room {
		return
	}
	s.room = n
	wanted := s.Limits.defaults()
	if l := wanted.within(n); l != wanted {
		s.Log.Info("the limits are lowered to what the server has room for", "protocol",
			s.Protocol.Name(),
			setting, n, "max_connections", l.MaxConnections, "max_logins", l.MaxLogins)
	}
	s.apply()
}
