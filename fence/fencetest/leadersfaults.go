package fencetest

import (
	"context"
	"testing"

	"github.com/ringfence/ringfence/fence"
)

func cutClientNamesNobody(t testing.TB, h Harness) {
	s := newStage(t, h)
	c := s.open()
	a := s.lead(s.open(), "a")
	b := s.enrol(s.open(), "b")
	s.wantLeader(c, "a")
	h.Cut(t, c)
	ctx, cancel := context.WithTimeout(s.ctx, h.SessionTimeout/4)
	defer cancel()
	if _, leaders, err := c.Leaders(ctx, s.resource); err == nil {
		t.Errorf("a client that is cut off names %+v", leaders)
	}
	s.resign(a)
	h.Heal(t, c)
	var leaders []fence.Candidate
	s.eventually("the healed client answers", func() bool {
		var err error
		_, leaders, err = c.Leaders(s.ctx, s.resource)
		return err == nil
	})
	if leaders[0].Holder != "b" {
		t.Errorf("the healed client names %+v; b leads", leaders[0])
	}
	s.resign(b.term())
}

func expiredLeaderIsNotNamed(t testing.TB, h Harness) {
	s := newStage(t, h)
	c := s.open()
	s.lead(c, "a")
	b := s.enrol(s.open(), "b")
	s.wantLeader(s.observer, "a")
	h.Expire(t, c)
	s.wantLeader(s.observer, "b")
	h.Expire(t, s.observer) // the observer has a session too
	s.wantLeader(s.observer, "b")
	s.resign(b.term())
}

func deletedLeaderIsNotNamed(t testing.TB, h Harness) {
	s := newStage(t, h)
	a := s.lead(s.open(), "a")
	b := s.enrol(s.open(), "b")
	s.wantLeader(s.observer, "a")
	h.Delete(t, s.resource, a.Token())
	s.wantLeader(s.observer, "b")
	s.resign(b.term())
}
