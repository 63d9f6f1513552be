package fencetest

import (
	"context"

	"github.com/ringfence/ringfence/fence/elector"
)

func cutClientNamesNobody(s *stage) {
	c := s.open()
	a := s.lead(s.open(), "a")
	b := s.enrol(s.open(), "b")
	s.wantLeader(c, "a")
	s.cut(c)
	ctx, cancel := context.WithTimeout(s.ctx, s.SessionTimeout/4)
	defer cancel()
	if _, leaders, err := c.Leaders(ctx, s.resource); err == nil {
		s.Errorf("a client that is cut off names %+v", leaders)
	}
	s.resign(a)
	s.heal(c)
	var leaders []elector.Candidate
	s.eventually("the healed client answers", func() bool {
		var err error
		_, leaders, err = c.Leaders(s.ctx, s.resource)
		return err == nil
	})
	if leaders[0].Holder != "b" {
		s.Errorf("the healed client names %+v; b leads", leaders[0])
	}
	s.resign(b.term())
}

func expiredLeaderIsNotNamed(s *stage) {
	c := s.open()
	s.lead(c, "a")
	b := s.enrol(s.open(), "b")
	s.wantLeader(s.observer, "a")
	s.expire(c)
	s.wantLeader(s.observer, "b")
	s.expire(s.observer) // the observer has a session too
	s.wantLeader(s.observer, "b")
	s.resign(b.term())
}

func deletedLeaderIsNotNamed(s *stage) {
	a := s.lead(s.open(), "a")
	b := s.enrol(s.open(), "b")
	s.wantLeader(s.observer, "a")
	s.delete(a.Token())
	s.wantLeader(s.observer, "b")
	s.resign(b.term())
}
