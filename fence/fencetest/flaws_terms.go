package fencetest

import (
	"context"
	"errors"
	"time"

	"github.com/ringfence/ringfence/fence"
)

var flawsOfTerms = []flaw{
	{
		name: "names nobody in its claims", clause: "a term says who won what", says: "the claim is",
		claim: func(c *fence.Claim) { c.Holder = "" },
	},
	{
		name:   "gives every term of a resource one token",
		clause: "tokens of successive terms rise", says: "has token",
		also:  []string{"one client may lead several resources"},
		claim: func(c *fence.Claim) { c.Token = 7 },
	},
	{
		name: "loses its term at the first cut", says: "is lost",
		clause: "a short cut suspends and resumes the same term",
		follow: func(s *shadow, state fence.State) {
			if s.f.isCut() {
				s.keeper.Lose(fence.ErrExpired)
			}
			s.obey(state)
		},
	},
	{
		name: "keeps its term without the coordinator", says: "want lost",
		clause: "a long cut expires the term before the next one starts",
		follow: func(s *shadow, state fence.State) {
			if s.f.isCut() {
				s.keeper.Confirm(time.Now())
				return
			}
			s.obey(state)
		},
	},
	{
		// Of a starved process that notes when it reads the reply, not when it has sent the request.
		name: "counts its deadline from the reply", says: "want lost",
		clause: "a long cut expires the term before the next one starts",
		also:   []string{"a starved process knows whether it leads"},
		follow: func(s *shadow, state fence.State) {
			if state == fence.Lost && !errors.Is(context.Cause(s.right.Context()), fence.ErrExpired) {
				s.obey(state)
				return
			}
			reply := s.confirmed().Add(s.f.world.timeout / 3)
			if len(s.replies) == 0 || reply.After(s.replies[len(s.replies)-1]) {
				s.replies = append(s.replies, reply)
			}
			for len(s.replies) > 0 && !s.replies[0].After(time.Now()) {
				s.keeper.Confirm(s.replies[0])
				s.replies = s.replies[1:]
			}
			if state == fence.Suspended {
				s.keeper.Suspend()
			}
		},
	},
	{
		name: "does not notice that its session has expired", says: "want it lost",
		clause: "an expired session ends the term", follow: deafTo(fence.ErrExpired),
	},
	{
		name: "does not notice that it was deposed", says: "want it lost",
		clause: "deleting the leader's entry deposes it",
		also: []string{
			"deposing takes the exact token", "a late resign cannot touch a newer term",
		},
		follow: deafTo(fence.ErrDeposed),
	},
	{
		name: "keeps its terms when it is closed", says: "want it lost",
		clause: "closing loses the terms",
		also:   []string{"one session carries a thousand elections"},
		follow: func(s *shadow, state fence.State) {
			if state != fence.Lost {
				s.obey(state)
			}
		},
	},
	{
		name:   "acknowledges in memory",
		clause: "only an acknowledged leader is ready", says: "is ready: false",
		also:        []string{"watching sees every standing change"},
		acknowledge: func(*shadow, context.Context) error { return nil },
	},
	{
		name:   "acknowledges although it was deposed",
		clause: "a deposed leader cannot acknowledge", says: "a deposed leader has acknowledged",
		follow:      deafTo(fence.ErrDeposed),
		acknowledge: func(*shadow, context.Context) error { return nil },
	},
}

var flawsOfReleases = []flaw{
	{
		name:   "resigns only in memory",
		clause: "a resignation without the coordinator still ends the term", says: "is no error",
		also: []string{
			"resigning lets the next in at once",
			"a resignation out of reach arrives when the coordinator is back",
			"tokens of successive terms rise",
		},
		release: func(*shadow, context.Context) error { return nil },
	},
	{
		name:   "forgets a resignation that could not arrive",
		clause: "a resignation out of reach arrives when the coordinator is back",
		says:   "b does not lead",
		release: func(s *shadow, ctx context.Context) error {
			if s.f.isCut() {
				return errors.New("the candidate may stay, and does")
			}
			return s.right.Resign(ctx)
		},
	},
	{
		name:   "does not say that a candidate may stay",
		clause: "a resignation out of reach arrives when the coordinator is back",
		says:   "does not say that the candidate may stay",
		release: func(s *shadow, ctx context.Context) error {
			if err := s.right.Resign(ctx); err != nil {
				return errors.New("timeout")
			}
			return nil
		},
	},
	{
		name: "resigns every term of the client", says: "want active",
		clause: "one client may lead several resources",
		also: []string{
			"one session carries a thousand elections",
			"a resignation out of reach arrives when the coordinator is back",
		},
		release: func(s *shadow, ctx context.Context) error {
			s.f.resignAll(ctx)
			return s.right.Resign(ctx)
		},
	},
	{
		name: "resigns for whoever leads", says: "the queue is",
		clause: "a late resign cannot touch a newer term",
		release: func(s *shadow, ctx context.Context) error {
			r := s.term.Claim().Resource
			if queue := s.f.queueOf(ctx, r); len(queue) > 0 {
				if _, err := s.f.Coordinator.Depose(ctx, r, queue[0].Token); err != nil {
					return err
				}
			}
			return s.right.Resign(ctx)
		},
	},
}
