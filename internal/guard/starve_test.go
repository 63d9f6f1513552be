package guard

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestAStarvingLoginEvictsThoseWhoStallAndComesFirst(t *testing.T) {
	g := visit(t, 9, 9, 3, time.Millisecond)
	stalls, works, leader, other := g.in("s"), g.in("w"), g.in("l"), g.in("o")
	for _, s := range []guest{stalls, works, leader} {
		if err := s.Login(s.ctx); err != nil {
			t.Fatal(err)
		}
	}
	stalls.Waiting()
	fed := leader.Starve()
	<-stalls.ctx.Done() // although nobody waits for its slot
	if err := context.Cause(stalls.ctx); !errors.Is(err, Evicted) {
		t.Errorf("ended with %v", err)
	}
	admitted := g.waits(&g.d.logins, func() error { return other.Login(other.ctx) })
	if works.ctx.Err() != nil {
		t.Error("a login that keeps nobody waiting was evicted")
	}
	fed()
	if err := <-admitted; err != nil {
		t.Error(err)
	}
}

// bounded is a fake whose server takes a number of connections.
type bounded struct {
	*fake
	take chan int
}

func (b bounded) Bound(ctx context.Context) (int, string, error) {
	select {
	case n := <-b.take:
		return n, "maxclients", nil
	case <-ctx.Done():
		return 0, "", ctx.Err()
	}
}

func TestTheLimitsStayBelowWhatTheServerTakes(t *testing.T) {
	take := make(chan int, 1)
	take <- 64
	s := serve(t, &fake{}, func(s *Server) { s.Protocol = bounded{s.Protocol.(*fake), take} })
	for state, want := range map[string]float64{
		"admitted": 64 - 16 - 6, "login": 8, "unadmitted": 1000,
	} {
		s.awaitMetric(want, "ringfence_connections_limit", "fake", state)
	}
	if l := (Limits{10, 10, 10}).within(2); l != (Limits{1, 10, 1}) {
		t.Errorf("a server of 2 connections: %v", l)
	}
}
