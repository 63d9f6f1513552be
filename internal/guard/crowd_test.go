package guard

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/test/poll"
)

// awaitMetric waits until a metric has the value.
func (s *served) awaitMetric(want float64, name string, labels ...string) {
	s.t.Helper()
	var got float64
	if !poll.Until(20*time.Second, func() bool {
		got = value(s.t, s.metrics, name, labels...)
		return got == want
	}) {
		s.t.Fatalf("%s%v is %v and did not become %v", name, labels, got, want)
	}
}

// closed waits until a connection has ended; the guard may have reset it.
func (s *served) closed(c net.Conn) {
	s.t.Helper()
	var timeout net.Error
	if _, err := io.ReadAll(c); errors.As(err, &timeout) && timeout.Timeout() {
		s.t.Fatal("the connection is still open")
	}
}

func TestSilentConnectionsKeepNobodyOutAndAreLoggedOnce(t *testing.T) {
	s := serve(t, &fake{}, func(s *Server) { s.MaxUnadmitted, s.Grace = 5, 50*time.Millisecond })
	var crowd []net.Conn
	for range 40 {
		crowd = append(crowd, s.dial())
	}
	leader := s.dial()
	s.says(leader, "A", "A")
	s.says(leader, "a", "a")
	s.awaitMetric(1, "ringfence_connections", "fake", "admitted")
	s.awaitMetric(0, "ringfence_connections", "fake", "waiting")
	for _, c := range crowd {
		_ = c.Close()
	}
	s.awaitMetric(0, "ringfence_connections", "fake", "unadmitted")
	ended := value(t, s.metrics, "ringfence_connections_ended_total", "fake", "evicted") +
		value(t, s.metrics, "ringfence_connections_ended_total", "fake", "too_many")
	if ended == 0 || value(t, s.metrics, "ringfence_connections_accepted_total", "fake") != 41 {
		t.Errorf("%v connections were ended", ended)
	}
	if n := strings.Count(s.log.String(), "reason=evicted"); n > 1 {
		t.Errorf("%d log lines about evictions, want at most 1", n)
	}
}

func TestLoginsThatStallKeepNobodyOut(t *testing.T) {
	s := serve(t, &fake{}, func(s *Server) { s.MaxLogins, s.Grace = 2, 50*time.Millisecond })
	for range 30 {
		_, _ = s.dial().Write([]byte("L"))
	}
	leader := s.dial()
	s.says(leader, "LA", "LA")
	s.says(leader, "a", "a")
}

func TestAConnectionThatWaitsForTheServerIsNotEvicted(t *testing.T) {
	s := serve(t, &fake{}, func(s *Server) { s.MaxUnadmitted, s.Grace = 1, time.Millisecond })
	busy := s.dial()
	s.says(busy, "S", "S")
	next := s.dial()
	s.awaitMetric(1, "ringfence_connections", "fake", "waiting")
	s.says(busy, "A", "A") // makes room
	s.says(next, "a", "a")
	s.says(busy, "a", "a")
}

func TestAClientWaitsForAnAdmittedSlotUntilOneIsFree(t *testing.T) {
	s := serve(t, &fake{}, func(s *Server) { s.MaxConnections, s.Grace = 1, time.Millisecond })
	in, next := s.dial(), s.dial()
	s.says(in, "A", "A")
	_, _ = next.Write([]byte("A"))
	s.ends(next, "no: the guard has its 1 admitted sessions already")
	s.awaitMetric(1, "ringfence_connections_ended_total", "fake", "full")
	s.says(in, "a", "a")
	s.says(s.dial(), "a", "a") // an unadmitted connection is still served
	_ = in.Close()
	s.awaitMetric(0, "ringfence_connections", "fake", "admitted")
	s.says(s.dial(), "A", "A")
}

func TestOneClientTooManyIsTurnedAwayAndToldWhy(t *testing.T) {
	for name, refuse := range map[string]func(net.Conn){
		"told": nil, "a bug": func(net.Conn) { panic("a bug") },
	} {
		s := serve(t, &fake{refuse: refuse}, func(s *Server) {
			s.MaxUnadmitted, s.Grace = 1, time.Hour
		})
		in := s.dial()
		s.says(in, "a", "a")
		first := s.dial()
		s.awaitMetric(1, "ringfence_connections", "fake", "waiting")
		for range (Limits{MaxUnadmitted: 1}).waiting() {
			s.dial()
		}
		if name == "told" {
			s.ends(first, "the guard has 1 connections that are not admitted, and 4 wait for room")
		} else {
			s.closed(first)
		}
		s.says(in, "b", "b")
		s.awaitMetric(1, "ringfence_connections_ended_total", "fake", "too_many")
	}
}

func TestAShutdownTellsClientsThatWaitForASlot(t *testing.T) {
	s := serve(t, &fake{}, func(s *Server) {
		s.MaxUnadmitted, s.Grace, s.DrainTimeout = 1, time.Hour, time.Hour
	})
	in := s.dial()
	s.says(in, "o", "o")
	waits := s.dial()
	s.awaitMetric(1, "ringfence_connections", "fake", "waiting")
	s.stop()
	s.ends(waits, "the guard is shutting down")
	s.says(in, "c", "c")
	s.ends(in, "drained")
}
