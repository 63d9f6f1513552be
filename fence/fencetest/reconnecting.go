package fencetest

import (
	"fmt"
	"slices"

	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/internal/test/must"
)

// watchingSurvivesReconnects changes an election while a client that watches it, and stands in it,
// is cut off and loses its connections. Before the client is back, the coordinator forgets what
// happened, if it can.
func watchingSurvivesReconnects(s *stage) {
	c := s.open()
	w := s.watch(c)
	w.sees(false)
	leader := s.lead(s.open(), "a0")
	w.sees(false, "a0")
	for i := range 3 {
		ours, theirs := fmt.Sprint("b", i), fmt.Sprint("a", i+1)
		waiting := s.enrol(c, ours)
		w.sees(false, leader.Claim().Holder, ours)

		s.cut(c)
		must.Succeed(s, leader.Acknowledge(s.ctx))
		others := s.open()
		last := s.enrol(others, theirs)
		passing := s.enrol(others, "passing")
		passing.cancel(nil)
		for range passing.won {
			s.Error("a cancelled campaign was won")
		}
		s.resign(leader)
		s.eventually("only the last change is to be seen", func() bool {
			return s.position("passing") < 0 && s.position(leader.Claim().Holder) < 0
		})
		if s.Forget != nil {
			s.Forget(s)
		}
		s.drop(c)
		s.heal(c)

		term := waiting.term() // its session may have expired on a busy machine
		s.resign(term)
		leader = last.term()
		w.sees(false, theirs)
		s.drop(c)
		must.Succeed(s, leader.Acknowledge(s.ctx))
		w.sees(true, theirs)
		s.resign(leader)
		leader = s.lead(others, theirs)
		w.sees(false, theirs)
	}
	s.resign(leader)
	w.sees(false)
}

// inOrder fails the test if a watch shows a queue that is older than one that it has shown. A
// candidate that has gone never comes back, because its token is its own; so every candidate that
// was not in the last queue is younger than all that were ever shown.
func (w *watcher) inOrder(queue []elector.Candidate) {
	w.s.Helper()
	for _, c := range queue {
		if c.Token <= w.youngest && !slices.ContainsFunc(w.last, func(l elector.Candidate) bool {
			return l.Token == c.Token
		}) {
			w.s.Errorf("the watch shows %+v after %+v: %v is back", queue, w.last, c.Token)
		}
	}
	for _, c := range queue {
		w.youngest = max(w.youngest, c.Token)
	}
	w.last = queue
}
