package guard

import (
	"cmp"
	"time"
)

// Limits are how many connections a Server has at once.
type Limits struct {
	MaxConnections int // admitted sessions; 10,000 when zero
	MaxUnadmitted  int // connections that are not admitted; 1,000 when zero
	MaxLogins      int // logins under way at the server; 40 when zero
}

func (l Limits) defaults() Limits {
	return Limits{
		cmp.Or(l.MaxConnections, 10_000), cmp.Or(l.MaxUnadmitted, 1000), cmp.Or(l.MaxLogins, 40),
	}
}

// SetLimits changes the limits, also while the server serves. Higher ones let in at once who waits.
// Lower ones end nobody: no more are let in until enough have left.
func (s *Server) SetLimits(l Limits) {
	s.limiting.Lock()
	defer s.limiting.Unlock()
	s.Limits = l
	if s.limiter != nil {
		s.apply()
	}
}

// apply makes the limits count, as far as the server has room.
func (s *Server) apply() {
	l := s.Limits.defaults().within(s.room)
	s.limiter.resize(l)
	s.Metrics.limit(s.Protocol, l)
}

// limit makes the limiter.
func (s *Server) limit() {
	s.limiting.Lock()
	defer s.limiting.Unlock()
	l := s.Limits.defaults()
	s.limiter = newLimiter(l, cmp.Or(s.Grace, time.Second))
	s.limiter.counts = s.Metrics.slots(s.Protocol)
	s.Metrics.limit(s.Protocol, l)
}
