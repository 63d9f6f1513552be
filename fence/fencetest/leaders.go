package fencetest

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/internal/test/must"
)

// leaders calls Leaders.
func (s *stage) leaders(
	c elector.Coordinator, rs ...fence.Resource,
) (fence.Issuer, []elector.Candidate) {
	s.Helper()
	var issuer fence.Issuer
	var leaders []elector.Candidate
	s.ask("who leads", func() (err error) {
		issuer, leaders, err = c.Leaders(s.ctx, rs...)
		return err
	})
	if len(leaders) != len(rs) {
		s.Fatalf("asked for %v, %d leaders were named: %+v", rs, len(leaders), leaders)
	}
	return issuer, leaders
}

// wantLeaders calls Leaders once. It must name the leaders at once, and nobody else; "" is nobody.
func (s *stage) wantLeaders(c elector.Coordinator, rs []fence.Resource, want ...string) {
	s.Helper()
	_, leaders := s.leaders(c, rs...)
	names := []string{}
	for _, l := range leaders {
		names = append(names, l.Holder)
		if (l.Token == 0) != (l.Holder == "") {
			s.Errorf("named is %+v", l)
		}
	}
	if !slices.Equal(names, want) {
		s.Errorf("the leaders of %v are said to be %q; want %q", rs, names, want)
	}
}

// wantLeader is wantLeaders for the stage's own resource.
func (s *stage) wantLeader(c elector.Coordinator, holder string) {
	s.Helper()
	s.wantLeaders(c, []fence.Resource{s.resource}, holder)
}

func firstOfSeveralLeads(s *stage) {
	s.wantLeader(s.observer, "")
	client := s.open()
	term := s.lead(client, "a")
	s.enrol(s.open(), "b")
	s.enrol(client, "c")
	for range 2 { // the second answer may come from a cache
		for _, c := range []elector.Coordinator{s.observer, client, s.open()} {
			if _, leaders := s.leaders(c, s.resource); leaders[0].Token != term.Token() ||
				leaders[0].Holder != "a" {
				s.Errorf("named is %+v; %v leads", leaders[0], term.Claim())
			}
		}
	}
	must.Succeed(s, term.Acknowledge(s.ctx))
	s.wantLeader(s.observer, "a")
	_, err := client.Depose(s.ctx, s.resource, s.token("b"))
	must.Succeed(s, err)
	s.wantLeader(s.observer, "a")
	s.resign(term)
}

func nextLeadsAtOnce(s *stage) {
	a := s.lead(s.open(), "a")
	b := s.enrol(s.open(), "b")
	c := s.enrol(s.open(), "c")
	s.wantLeader(s.observer, "a")
	s.resign(a)
	s.wantLeader(s.observer, "b")
	operator := s.open()
	if found, err := operator.Depose(s.ctx, s.resource, b.term().Token()); !found || err != nil {
		s.Fatal(found, err)
	}
	s.wantLeader(s.observer, "c")
	s.wantLeader(operator, "c")
	s.resign(c.term())
	s.wantLeader(s.observer, "")
	d := s.lead(s.open(), "d")
	s.wantLeader(s.observer, "d")
	s.resign(d)
}

func leadersComeInOrder(s *stage) {
	first, empty, last := s.resource, s.anotherResource(), s.anotherResource()
	a := s.lead(s.open(), "a")
	b := s.campaign(s.open(), last, "b").term()
	asked := []fence.Resource{last, empty, first, last}
	for range 2 {
		s.wantLeaders(s.observer, asked, "b", "", "a", "b")
		s.wantLeaders(s.observer, []fence.Resource{first, last}, "a", "b")
	}
	c := s.campaign(s.open(), empty, "c").term()
	s.wantLeaders(s.observer, asked, "b", "c", "a", "b")
	s.resign(a)
	s.wantLeaders(s.observer, asked, "b", "c", "", "b")
	s.resign(b)
	s.wantLeaders(s.observer, asked, "", "c", "", "")
	s.resign(c)
	if issuer, _ := s.leaders(s.observer); issuer == "" {
		s.Error("without a resource it does not return the issuer")
	}
}

// leadersAgreeWithCandidates compares the two while nothing changes.
func leadersAgreeWithCandidates(s *stage) {
	agree := func() {
		s.Helper()
		issuer, leaders := s.leaders(s.observer, s.resource)
		if one, err := s.observer.Issuer(s.ctx); one != issuer || err != nil {
			s.Errorf("the issuer is %q, with the leaders it is %q; %v", one, issuer, err)
		}
		var first elector.Candidate
		if queue := s.queue(); len(queue) > 0 {
			first = queue[0]
		}
		if leaders[0].Token != first.Token || leaders[0].Holder != first.Holder {
			s.Errorf("the queue begins with %+v, named is %+v", first, leaders[0])
		}
	}
	agree()
	client := s.open()
	a := s.lead(client, "a")
	agree()
	b := s.enrol(s.open(), "b")
	agree()
	must.Succeed(s, a.Acknowledge(s.ctx))
	agree()
	s.resign(a)
	agree()
	s.resign(b.term())
	agree()
}

// lostTermIsNotNamed lets several clients call Leaders while terms come and go.
func lostTermIsNotNamed(s *stage) {
	const terms = 12
	clients := []elector.Coordinator{s.open(), s.open()}
	var lost atomic.Int64 // the highest token that is lost
	var asking sync.WaitGroup
	over := make(chan struct{})
	for i := range 4 {
		asking.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				before := lost.Load()
				_, leaders, err := clients[i%2].Leaders(s.ctx, s.resource)
				if err != nil {
					s.Errorf("ask who leads: %v", err)
					return
				}
				if named := leaders[0].Token; named != 0 && int64(named) <= before {
					s.Errorf("token %v is named; %v was lost before", named, before)
					return
				}
			}
		})
	}
	defer asking.Wait()
	defer close(over)
	for i := range terms {
		term := s.lead(clients[i%2], "a")
		s.wantLeader(s.observer, "a")
		if i%3 == 0 {
			if found, err := s.observer.Depose(s.ctx, s.resource, term.Token()); !found || err != nil {
				s.Errorf("depose %v: %v, %v", term.Claim(), found, err)
			}
			lost.Store(int64(term.Token()))
		}
		s.resign(term)
		lost.Store(int64(term.Token()))
		s.wantLeader(s.observer, "")
	}
}

// leadersComeWithTodaysIssuer renews the issuer; the other client must see that at its next call.
func leadersComeWithTodaysIssuer(s *stage) {
	c, operator := s.alone()
	var before []fence.Issuer
	for range 4 {
		term := s.campaign(c, s.resource, "a").term()
		s.wantLeader(c, "a")
		issuer, _ := s.leaders(c, s.resource)
		if slices.Contains(before, issuer) {
			s.Errorf("issuer %q was returned after the renewal; the earlier ones are %q", issuer, before)
		}
		if term.Claim().Issuer != issuer {
			s.Errorf("the term's issuer is %q, with the leaders it is %q", term.Claim().Issuer, issuer)
		}
		before = append(before, issuer)
		s.renew(operator)
		renewed, _ := s.leaders(c, s.resource)
		if one, err := c.Issuer(s.ctx); renewed == issuer || one != renewed || err != nil {
			s.Errorf("issuer %q was renewed, with the leaders it is %q; it is %q, %v", issuer,
				renewed, one, err)
		}
		_ = term.Resign(s.ctx)
	}
}
