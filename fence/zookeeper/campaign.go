package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/backoff"
	"github.com/ringfence/ringfence/internal/ensemble"
	"github.com/ringfence/ringfence/internal/ensemble/election"
)

// Campaign implements fence.Elector. While no server answers, it keeps trying. If ctx ends, the
// error contains the last failure.
func (c *Coordinator) Campaign(
	ctx context.Context, r fence.Resource, holder string,
) (*fence.Term, error) {
	if _, err := fence.ParseResource(string(r)); err != nil {
		return nil, err
	}
	if err := c.client.Begin(); err != nil {
		return nil, err
	}
	defer c.client.Done()
	ctx, stop := c.client.WithClose(ctx)
	defer stop()
	for failures := 0; ; {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("campaign for %s: %w%s", r, context.Cause(ctx), c.client.FailureNote())
		}
		term, enrolled, err := c.attempt(ctx, r, holder)
		if err == nil {
			return term, nil
		}
		if election.Refused(err) {
			return nil, fmt.Errorf("campaign for %s: %w", r, err)
		}
		if ctx.Err() != nil {
			continue // err only says that ctx has ended
		}
		if enrolled {
			failures = 0
		}
		failures++
		wait := backoff.After(failures, backoff.Least, backoff.Most)
		c.client.Log().Warn("campaign starts again", "resource", r, "holder", holder, "error",
			err, "in", wait)
		backoff.Pause(ctx, wait)
	}
}

// attempt makes one candidacy in a session of its own. It returns a term, or an error and leaves
// nothing behind.
func (c *Coordinator) attempt(
	ctx context.Context, r fence.Resource, holder string,
) (term *fence.Term, enrolled bool, err error) {
	s, err := c.client.NewSession(ctx)
	if err != nil {
		return nil, false, err
	}
	issuer, err := election.ReadIssuer(ctx, s)
	if err != nil {
		s.Close()
		return nil, false, err
	}
	own, err := c.enrol(ctx, s, r, holder)
	if err != nil {
		s.Close()
		return nil, false, err
	}
	confirmed, err := own.await(ctx)
	if err != nil {
		s.Close()
		return nil, true, err
	}
	return own.win(issuer, confirmed), true, nil
}

// win makes the term of a candidate that has just been proved to lead, and starts the goroutine
// that keeps it.
func (e *enrolment) win(issuer fence.Issuer, confirmed time.Time) *fence.Term {
	claim := fence.Claim{Resource: e.resource, Token: e.token, Issuer: issuer, Holder: e.holder}
	b := &backing{e}
	term, keeper := fence.NewTerm(claim, confirmed, e.s.Timeout(), b)
	e.s.Client().Go(func() { b.keep(term, keeper) }) // allowed: the calling Campaign is counted
	return term
}

// lossOf returns the cause of a term's loss from the end of its session.
func lossOf(cause error) error {
	if errors.Is(cause, ensemble.ErrEnded) {
		return fmt.Errorf("%w: %w", fence.ErrResigned, cause)
	}
	return fmt.Errorf("%w: %w", fence.ErrExpired, cause)
}
