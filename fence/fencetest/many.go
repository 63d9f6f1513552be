package fencetest

import (
	"slices"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
)

const (
	defaultElections = 1000
	campaignsAtOnce  = 32
	leadersAtOnce    = 50 // resources in one call of Leaders; how many one call takes is not tested
)

// oneSessionManyElections has one client lead many elections for more than a session timeout.
func oneSessionManyElections(s *stage) {
	elections := s.Elections
	if elections == 0 {
		elections = defaultElections
	}
	c := s.open()
	resources := make([]fence.Resource, elections)
	campaigns := make([]*run, elections)
	terms := make([]*fence.Term, elections)
	for i := range elections + campaignsAtOnce {
		if i < elections {
			resources[i] = s.anotherResource()
			campaigns[i] = s.campaign(c, resources[i], "a")
		}
		if won := i - campaignsAtOnce; won >= 0 && won < elections {
			terms[won] = campaigns[won].term()
		}
	}
	if s.Sessions != nil {
		if n := s.Sessions(s, resources...); n != 1 {
			s.Errorf("one client has %d sessions for %d elections; want 1", n, elections)
		}
	}
	s.wantTerms(resources, terms)
	s.outlives(terms...)
	for _, term := range terms {
		s.wantState(term, fence.Active)
	}
	s.resign(terms[0])
	s.ends(terms[0], 0, fence.ErrResigned)
	s.wantTerms(resources, slices.Concat([]*fence.Term{nil}, terms[1:]))
	before := make([]time.Time, elections)
	for i, term := range terms {
		before[i] = term.Deadline()
	}
	for i, term := range terms[1:] {
		s.eventually("the other terms are confirmed again", func() bool {
			return term.Deadline().After(before[1+i]) || term.State() == fence.Lost
		})
		s.wantState(term, fence.Active)
	}
	if err := c.Close(); err != nil {
		s.Error(err)
	}
	for _, term := range terms[1:] {
		s.ends(term, 0, fence.ErrLost)
	}
	s.within(s.SessionTimeout/2, "the closed client leads nothing", func() bool {
		return !slices.ContainsFunc(s.leadersOf(resources), func(l elector.Candidate) bool {
			return l.Token != 0
		})
	})
}

// wantTerms checks that exactly these terms lead; nil is nobody.
func (s *stage) wantTerms(resources []fence.Resource, terms []*fence.Term) {
	s.Helper()
	for i, leader := range s.leadersOf(resources) {
		var want fence.Token
		if terms[i] != nil {
			want = terms[i].Token()
		}
		if leader.Token != want {
			s.Errorf("%s: token %v leads; want %v", resources[i], leader.Token, want)
		}
	}
}

// leadersOf names the leaders of many resources.
func (s *stage) leadersOf(resources []fence.Resource) (all []elector.Candidate) {
	s.Helper()
	for some := range slices.Chunk(resources, leadersAtOnce) {
		_, leaders := s.leaders(s.observer, some...)
		all = append(all, leaders...)
	}
	return all
}
