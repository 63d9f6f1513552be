package fencetest

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/ringfence/ringfence/fence"
)

func shortCutSuspends(s *stage) {
	c := s.open()
	term := s.lead(c, "a")
	token := term.Token()
	b := s.enrol(s.open(), "b")
	s.cut(c)
	s.reaches(term, fence.Suspended)
	s.heal(c)
	s.reaches(term, fence.Active)
	first := term.Deadline()
	s.eventually("the resumed term is confirmed again", func() bool {
		return term.Deadline().After(first)
	})
	if term.Token() != token || s.token("a") != token {
		s.Errorf("the token changed from %v to %v, enrolled as %v", token, term.Token(), s.token("a"))
	}
	b.waits("although the cut was short")
	if err := term.Acknowledge(s.ctx); err != nil {
		s.Errorf("acknowledge after the cut: %v", err)
	}
	s.resign(term)
	s.resign(b.term())
}

func longCutExpires(s *stage) {
	c := s.open()
	term := s.lead(c, "a")
	b := s.enrol(s.open(), "b")
	s.cut(c)
	next := b.term()
	s.wantState(term, fence.Lost) // although no message arrived
	s.ends(term, 0, fence.ErrExpired)
	if next.Token() <= term.Token() {
		s.Errorf("token %v follows %v", next.Token(), term.Token())
	}
	s.heal(c)
	_ = term.Resign(s.ctx)
	s.wantQueue("b")
	again := s.enrol(c, "a")
	s.wantQueue("b", "a")
	s.resign(next)
	if latest := again.term(); latest.Token() <= next.Token() {
		s.Errorf("token %v follows %v", latest.Token(), next.Token())
	}
}

func cutInTheMiddle(s *stage) {
	leader := s.lead(s.open(), "a")
	middle := s.open()
	b := s.enrol(middle, "b")
	c := s.enrol(s.open(), "c")
	s.cut(middle)
	s.wantQueue("a", "c")
	c.waits("when only its predecessor had gone")
	s.heal(middle)
	s.wantQueue("a", "c", "b")
	s.wantState(leader, fence.Active)
	b.waits("while another leads")
	s.resign(leader)
	s.resign(c.term())
	s.resign(b.term())
}

// The client's sessions may live on for its other terms: what is left of the campaign must not.
func cancelledOutOfReachLeavesNothing(s *stage) {
	leader := s.lead(s.open(), "a")
	c := s.open()
	other := s.campaign(c, s.anotherResource(), "b").term()
	b := s.enrol(c, "b")
	s.cut(c)
	b.cancel(errors.New("enough"))
	for range b.won {
		s.Error("a cancelled campaign was won")
	}
	s.heal(c)
	s.wantQueue("a")
	s.reaches(other, fence.Active)
	s.wantState(leader, fence.Active)
	s.resign(leader)
	s.resign(other)
}

func observingSurvivesACut(s *stage) {
	c := s.open()
	w := s.watch(c)
	w.sees(false)
	s.cut(c)
	ctx, cancel := context.WithTimeout(s.ctx, s.SessionTimeout/4)
	defer cancel()
	if queue, err := c.Candidates(ctx, s.resource); err == nil {
		s.Errorf("a client that is cut off lists %+v", queue)
	}
	term := s.lead(s.open(), "a")
	s.heal(c)
	w.sees(false, "a")
	s.eventually("the healed client lists again", func() bool {
		queue, err := c.Candidates(s.ctx, s.resource)
		return err == nil && len(queue) == 1
	})
	s.resign(term)
	w.sees(false)
}

func resignOutOfReach(s *stage) {
	c := s.open()
	term := s.lead(c, "a")
	b := s.enrol(s.open(), "b")
	s.cut(c)
	ctx, cancel := context.WithTimeout(s.ctx, s.SessionTimeout/4)
	defer cancel()
	begin := time.Now()
	if err := term.Resign(ctx); err == nil {
		s.Error("a resignation that cannot have arrived is no error")
	}
	if took := time.Since(begin); took > s.SessionTimeout/4+s.patience/3 {
		s.Errorf("the resignation took %v; its context had %v", took, s.SessionTimeout/4)
	}
	s.ends(term, 0, fence.ErrResigned)
	s.resign(b.term()) // after the session timeout
	s.heal(c)
}

// resignationArrives resigns while the coordinator is out of reach for less than a session timeout.
// The client leads something else, so if its candidates share a session, that session lives on.
// Then only the client can remove the candidate.
func resignationArrives(s *stage) {
	c := s.open()
	term := s.lead(c, "a")
	elsewhere := s.anotherResource()
	other := s.campaign(c, elsewhere, "a").term()
	b := s.enrol(s.open(), "b")
	s.cut(c)
	ctx, cancel := context.WithTimeout(s.ctx, s.SessionTimeout/10)
	defer cancel()
	err := term.Resign(ctx)
	if err == nil {
		s.Error("a resignation that cannot have arrived is no error")
	} else if !strings.Contains(err.Error(), "may stay") {
		s.Errorf("the error does not say that the candidate may stay: %v", err)
	}
	s.ends(term, 0, fence.ErrResigned)
	s.heal(c)
	next := b.term()
	s.wantQueue("b")
	s.reaches(other, fence.Active)
	if _, leaders := s.leaders(s.observer, elsewhere); leaders[0].Token != other.Token() {
		s.Errorf("the client's other term is %v; %+v leads", other.Claim(), leaders[0])
	}
	if again := term.Resign(s.ctx); again == nil {
		s.Error("a later Resign hides that the first one has failed")
	}
	s.resign(next)
	s.resign(other)
	s.wantQueue()
}

func expiredSessionEndsTheTerm(s *stage) {
	c := s.open()
	term := s.lead(c, "a")
	b := s.enrol(s.open(), "b")
	s.expire(c)
	s.ends(term, s.patience, fence.ErrExpired)
	next := b.term()
	if next.Token() <= term.Token() {
		s.Errorf("token %v follows %v", next.Token(), term.Token())
	}
	_ = term.Resign(s.ctx)
	s.wantQueue("b")
}

func expiredCandidateEnrolsAgain(s *stage) {
	leader := s.lead(s.open(), "a")
	middle := s.open()
	b := s.enrol(middle, "b")
	c := s.enrol(s.open(), "c")
	old := s.token("b")
	s.expire(middle)
	s.wantQueue("a", "c", "b")
	b.waits("after its session expired")
	c.waits("after its predecessor's session expired")
	s.wantState(leader, fence.Active)
	if token := s.token("b"); token <= old {
		s.Errorf("the candidate enrolled again with token %v; it had %v", token, old)
	}
}

func deletedLeaderIsDeposed(s *stage) {
	leader := s.lead(s.open(), "a")
	b := s.enrol(s.open(), "b")
	s.delete(leader.Token())
	s.ends(leader, s.SessionTimeout/2, fence.ErrDeposed)
	next := b.term()
	if err := leader.Resign(s.ctx); err != nil {
		s.Errorf("resign after the entry was deleted: %v", err)
	}
	s.wantState(next, fence.Active)
	s.wantQueue("b")
}

func deletedCandidateEnrolsAgain(s *stage) {
	leader := s.lead(s.open(), "a")
	b := s.enrol(s.open(), "b")
	c := s.enrol(s.open(), "c")
	s.delete(s.token("b"))
	s.wantQueue("a", "c", "b")
	b.waits("after its entry was deleted")
	c.waits("after its predecessor's entry was deleted")
	s.wantState(leader, fence.Active)
}

func lostReplyEnrolsOnce(s *stage) {
	c := s.open()
	s.loseReply(c)
	term := s.lead(c, "a")
	if got := s.queue(); len(got) != 1 || got[0].Token != term.Token() {
		s.Errorf("after a lost reply the queue is %+v; the leader's token is %v", got, term.Token())
	}
	s.loseReply(c)
	b := s.enrol(c, "b")
	s.wantQueue("a", "b")
	s.resign(term)
	s.resign(b.term())
	s.wantQueue()
}
