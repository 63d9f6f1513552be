package fencetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/internal/test/must"
)

func termSaysWhoWonWhat(s *stage) {
	begin := time.Now()
	c := s.open()
	term := s.lead(c, "a")
	issuer, err := c.Issuer(s.ctx)
	must.Succeed(s, err)
	want := fence.Claim{
		Resource: s.resource, Token: term.Token(), Issuer: issuer, Holder: "a",
		Candidate: term.Claim().Candidate,
	}
	if term.Claim() != want {
		s.Errorf("the claim is %+v; want %+v", term.Claim(), want)
	}
	if term.Token() <= 0 {
		s.Errorf("token %v is not positive", term.Token())
	}
	s.wantState(term, fence.Active)
	if d := term.Deadline(); !d.After(begin) || d.After(time.Now().Add(s.SessionTimeout)) {
		s.Errorf("the deadline is %v from now; want at most the session timeout, %v", time.Until(d),
			s.SessionTimeout)
	}
	first := term.Deadline()
	s.eventually("the term is confirmed again", func() bool { return term.Deadline().After(first) })
	s.resign(term)
	s.ends(term, 0, fence.ErrResigned)
}

func tokensRise(s *stage) {
	clients := []elector.Coordinator{s.open(), s.open()}
	var last fence.Token
	for i := range 6 {
		term := s.lead(clients[i%2], fmt.Sprint("holder", i))
		if term.Token().Compare(last) <= 0 {
			s.Errorf("term %d has token %v after %v", i, term.Token(), last)
		}
		last = term.Token()
		s.resign(term)
	}
}

// atMostOneTerm lets many campaign for one resource. Each winner checks every earlier term.
func atMostOneTerm(s *stage) {
	const campaigners, rounds = 6, 4
	clients := []elector.Coordinator{s.open(), s.open(), s.open()}
	var mu sync.Mutex
	var won []*fence.Term
	var all sync.WaitGroup
	for i := range campaigners {
		all.Go(func() {
			for range rounds {
				term, err := clients[i%len(clients)].Campaign(s.ctx, s.resource, fmt.Sprint("holder", i))
				if err != nil {
					s.Errorf("campaign: %v", err)
					return
				}
				mu.Lock()
				earlier := won
				won = append(slices.Clone(won), term)
				mu.Unlock()
				for _, older := range earlier {
					if older.State() != fence.Lost {
						s.Errorf("%v and %v lead at once", older.Claim(), term.Claim())
					}
					if older.Token() >= term.Token() {
						s.Errorf("term %v came after %v", term.Claim(), older.Claim())
					}
				}
				if err := term.Acknowledge(s.ctx); err != nil {
					s.Errorf("acknowledge %v: %v", term.Claim(), err)
				}
				if err := term.Resign(s.ctx); err != nil {
					s.Errorf("resign %v: %v", term.Claim(), err)
				}
			}
		})
	}
	all.Wait()
	if len(won) != campaigners*rounds {
		s.Errorf("%d terms were won; want %d", len(won), campaigners*rounds)
	}
	s.wantQueue()
}

func oneClientManyResources(s *stage) {
	c := s.open()
	first := s.lead(c, "a")
	second := s.campaign(c, s.anotherResource(), "a").term()
	if first.Token() == second.Token() {
		s.Errorf("two resources have one token, %v", first.Token())
	}
	s.resign(first)
	s.wantState(second, fence.Active)
	s.resign(second)
}

func waitingCandidateHasNoTerm(s *stage) {
	leader := s.lead(s.open(), "a")
	b := s.enrol(s.open(), "b")
	if token := s.token("b"); token.Compare(leader.Token()) <= 0 {
		s.Errorf("the waiting candidate's token is %v, the leader's %v", token, leader.Token())
	}
	first := leader.Deadline() // wait for a session timeout
	s.eventually("the leader has outlived its first deadline", func() bool {
		return time.Now().After(first)
	})
	s.wantState(leader, fence.Active)
	b.waits("while another leads")
	s.resign(leader)
	s.resign(b.term())
}

func resignLetsTheNextIn(s *stage) {
	leader := s.lead(s.open(), "a")
	b := s.enrol(s.open(), "b")
	enrolled := s.token("b")
	begin := time.Now()
	s.resign(leader)
	term := b.term()
	if took := time.Since(begin); took > s.SessionTimeout/2 {
		s.Errorf("the next leader took %v after a resignation; the session timeout is %v", took,
			s.SessionTimeout)
	}
	if term.Token() != enrolled {
		s.Errorf("the term has token %v, its candidate had %v", term.Token(), enrolled)
	}
}

func lateResignCannotTouchNewerTerm(s *stage) {
	c := s.open()
	resigned := s.lead(c, "a")
	b := s.enrol(s.open(), "b")
	s.resign(resigned)
	deposed := b.term()
	next := s.enrol(c, "c") // of the client whose first term will resign late
	_, err := s.observer.Depose(s.ctx, s.resource, deposed.Token())
	must.Succeed(s, err)
	newer := next.term()
	s.ends(deposed, s.patience, fence.ErrDeposed)
	for range 2 {
		_ = resigned.Resign(s.ctx)
		_ = deposed.Resign(s.ctx)
	}
	s.wantQueue("c")
	first := newer.Deadline()
	s.eventually("the newer term is confirmed again", func() bool {
		return newer.Deadline().After(first)
	})
	s.wantState(newer, fence.Active)
}

func cancelledCampaignLeavesNothing(s *stage) {
	c := s.open()
	leader := s.lead(c, "a")
	b := s.enrol(c, "b")
	enough := errors.New("enough")
	b.cancel(enough)
	for range b.won {
		s.Error("a cancelled campaign was won")
	}
	if !errors.Is(b.err, enough) {
		s.Errorf("the cancelled campaign returned %v; want its context's cause", b.err)
	}
	s.within(s.SessionTimeout/2, "the cancelled candidate is gone", func() bool {
		return slices.Equal(s.holders(), []string{"a"})
	})
	s.wantState(leader, fence.Active)

	early := s.campaign(c, s.resource, "d")
	early.cancel(enough) // at some point during the enrolment
	for range early.won {
		s.Error("a cancelled campaign was won")
	}
	s.wantQueue("a")
}

// deathInTheMiddle ends c's predecessor while a still leads.
func deathInTheMiddle(s *stage) {
	leader := s.lead(s.open(), "a")
	middle := s.open()
	s.enrol(middle, "b")
	c := s.enrol(s.open(), "c")
	d := s.enrol(s.open(), "d")
	must.Succeed(s, middle.Close())
	s.wantQueue("a", "c", "d")
	first := leader.Deadline()
	s.eventually("the leader is confirmed again", func() bool {
		return leader.Deadline().After(first)
	})
	c.waits("when only its predecessor had gone")
	d.waits("when a candidate far before it had gone")
	s.resign(leader)
	s.resign(c.term())
	s.resign(d.term())
}
