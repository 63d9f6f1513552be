package fencetest

import (
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
)

// candidatesHaveIdentities: whoever reads an election finds the identity that the winner's claim
// has, and each candidate has another one, those of one client and one resource, too.
func candidatesHaveIdentities(s *stage) {
	c := s.open()
	seen := make(map[string]bool)
	for range 3 {
		term := s.lead(c, "a")
		id := term.Claim().Candidate
		if id == "" || seen[id] {
			s.Errorf("the claim's candidate is %q, after %v", id, seen)
		}
		seen[id] = true
		if queue := s.queue(); len(queue) != 1 || queue[0].ID != id {
			s.Errorf("the queue is %+v; want candidate %q", queue, id)
		}
		if _, leaders := s.leaders(s.observer, s.resource); leaders[0].ID != id {
			s.Errorf("named is %+v; want candidate %q", leaders[0], id)
		}
		s.resign(term)
	}
}

var flawsOfIdentities = []flaw{
	{
		name: "names leaders without their identity", says: "want candidate",
		clause:  "a candidate has an identity of its own",
		leaders: eachLeader(func(_ *flawed, _ fence.Resource, l *elector.Candidate) { l.ID = "" }),
	},
	{
		name: "lists candidates without their identity", says: "want candidate",
		clause: "a candidate has an identity of its own",
		candidates: func(_ *flawed, queue []elector.Candidate, err error) ([]elector.Candidate, error) {
			for i := range queue {
				queue[i].ID = ""
			}
			return queue, err
		},
	},
	{
		name: "gives all candidates one identity", says: "want candidate",
		clause: "a candidate has an identity of its own",
		claim:  func(c *fence.Claim) { c.Candidate = "one" },
	},
}
