package fencetest

import (
	"context"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
)

// shadow is a term of a flawed coordinator. It follows the right one, except where the flaw is.
type shadow struct {
	f      *flawed
	right  *fence.Term
	term   *fence.Term
	keeper *elector.Keeper

	replies []time.Time // which a flaw reads late; only follow uses it
}

// shadowOf makes the term that a flawed coordinator returns in place of the right one.
func (f *flawed) shadowOf(right *fence.Term) *fence.Term {
	s := &shadow{f: f, right: right}
	claim := right.Claim()
	claim.Issuer = f.issuerOr(claim.Issuer)
	if f.flaw.claim != nil {
		f.flaw.claim(&claim)
	}
	s.term, s.keeper = elector.NewTerm(claim, s.confirmed(), f.world.timeout, s)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		s.obey(fence.Lost)
		return s.term
	}
	f.terms = append(f.terms, s)
	f.work.Go(s.follow)
	return s.term
}

// confirmed returns when the round trip began that has confirmed the right term last.
func (s *shadow) confirmed() time.Time { return s.right.Deadline().Add(-s.f.world.timeout) }

// follow looks at the right term until this one is lost, or the client is closed. A confirmation
// does not change a term's state, so it looks often.
func (s *shadow) follow() {
	again := time.NewTicker(s.f.world.timeout / 200)
	defer again.Stop()
	for s.term.State() != fence.Lost {
		closed := s.f.ctx.Err() != nil
		state, changed := s.right.Watch()
		if s.f.flaw.follow != nil {
			s.f.flaw.follow(s, state)
		} else {
			s.obey(state)
		}
		if closed {
			return
		}
		select {
		case <-changed:
		case <-again.C:
		case <-s.term.Context().Done():
		case <-s.f.ctx.Done():
		}
	}
}

// obey does what the right term does.
func (s *shadow) obey(state fence.State) {
	switch state {
	case fence.Active:
		s.keeper.Confirm(s.confirmed())
	case fence.Suspended:
		s.keeper.Suspend()
	case fence.Lost:
		s.keeper.Lose(context.Cause(s.right.Context()))
	}
}

// Acknowledge implements elector.Backing.
func (s *shadow) Acknowledge(ctx context.Context) error {
	if s.f.flaw.acknowledge != nil {
		return s.f.flaw.acknowledge(s, ctx)
	}
	return s.right.Acknowledge(ctx)
}

// Release implements elector.Backing.
func (s *shadow) Release(ctx context.Context) error {
	if s.f.flaw.release != nil {
		return s.f.flaw.release(s, ctx)
	}
	return s.right.Resign(ctx)
}

// madeUp makes a term that nobody has won.
func (f *flawed) madeUp(ctx context.Context, r fence.Resource, c elector.Candidate) *fence.Term {
	issuer, _ := f.Coordinator.Issuer(ctx)
	claim := fence.Claim{
		Resource: r, Token: c.Token, Issuer: issuer, Holder: c.Holder, Candidate: c.ID,
	}
	term, _ := elector.NewTerm(claim, time.Now(), f.world.timeout, nothing{})
	return term
}

// nothing is a elector.Backing that does nothing.
type nothing struct{}

func (nothing) Acknowledge(context.Context) error { return nil }
func (nothing) Release(context.Context) error     { return nil }
