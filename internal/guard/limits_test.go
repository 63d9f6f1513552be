package guard

import (
	"testing"
	"time"
)

func TestLimitsChangeWhileTheServerServes(t *testing.T) {
	var server *Server
	s := serve(t, &fake{}, func(s *Server) {
		server = s
		s.MaxConnections, s.MaxUnadmitted, s.Grace = 1, 1, time.Hour
	})
	first := s.dial()
	s.says(first, "a", "a")
	second, third := s.dial(), s.dial()
	s.awaitMetric(2, "ringfence_connections", "fake", "waiting")

	server.SetLimits(Limits{MaxConnections: 2, MaxUnadmitted: 2, MaxLogins: 3})
	s.says(second, "a", "a")
	s.awaitMetric(1, "ringfence_connections", "fake", "waiting")
	for state, want := range map[string]float64{
		"admitted": 2, "unadmitted": 2, "waiting": 8, "login": 3,
	} {
		s.awaitMetric(want, "ringfence_connections_limit", "fake", state)
	}
	s.says(first, "A", "A")
	s.says(second, "A", "A")
	s.says(third, "a", "a")

	server.SetLimits(Limits{MaxConnections: 1, MaxUnadmitted: 2})
	s.awaitMetric(1, "ringfence_connections_limit", "fake", "admitted")
	s.says(first, "a", "a") // nobody is ended
	s.says(second, "a", "a")
	_ = first.Close()
	s.awaitMetric(1, "ringfence_connections", "fake", "admitted")
	_, _ = third.Write([]byte("A"))
	s.ends(third, "no: the guard has its 1 admitted sessions already")
	_ = second.Close()
	s.awaitMetric(0, "ringfence_connections", "fake", "admitted")
	s.says(s.dial(), "A", "A")
}
