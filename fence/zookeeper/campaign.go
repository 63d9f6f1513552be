package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/fence"
)

const (
	backoffLeast = 50 * time.Millisecond
	backoffMost  = 5 * time.Second
)

// Campaign implements fence.Elector. While no server answers it keeps trying; the error at the end of ctx tells the
// last failure.
func (c *Coordinator) Campaign(ctx context.Context, r fence.Resource, holder string) (*fence.Term, error) {
	if _, err := fence.ParseResource(string(r)); err != nil {
		return nil, err
	}
	if err := c.begin(); err != nil {
		return nil, err
	}
	defer c.work.Done()
	ctx, stop := c.until(ctx)
	defer stop()
	for failures := 0; ; {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("campaign for %s: %w%s", r, context.Cause(ctx), because(c.lastFailure()))
		}
		term, enrolled, err := c.attempt(ctx, r, holder)
		if err == nil {
			return term, nil
		}
		if refused(err) {
			return nil, fmt.Errorf("campaign for %s: %w", r, err)
		}
		if ctx.Err() != nil {
			continue // err is the end of ctx, not a failure
		}
		if enrolled {
			failures = 0
		}
		failures++
		wait := backoff(failures, backoffLeast, backoffMost)
		c.log.Warn("campaign starts anew", "resource", r, "holder", holder, "error", err, "in", wait)
		pause(ctx, wait)
	}
}

// pause returns early when ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// attempt is one candidacy in a session of its own: victory, or an error and nothing left behind.
func (c *Coordinator) attempt(ctx context.Context, r fence.Resource, holder string) (term *fence.Term, enrolled bool, err error) {
	limited, cancel := context.WithTimeoutCause(ctx, c.patience(), c.noAnswer(nil))
	defer cancel()
	s, err := c.openSession(limited, true)
	if err != nil {
		return nil, false, err
	}
	issuer, err := s.issuer(ctx)
	if err != nil {
		s.close()
		return nil, false, err
	}
	own, err := s.enrol(ctx, r, holder)
	if err != nil {
		s.close()
		return nil, false, err
	}
	confirmed, err := own.await(ctx)
	if err != nil {
		s.close()
		return nil, true, err
	}
	return own.win(issuer, confirmed), true, nil
}

// win makes the term of a candidate that has just been proved to lead, and the goroutine that keeps it.
func (c *candidate) win(issuer fence.Issuer, confirmed time.Time) *fence.Term {
	claim := fence.Claim{Resource: c.resource, Token: c.token, Issuer: issuer, Holder: c.holder}
	h := &hold{candidate: c}
	term, keeper := fence.NewTerm(claim, confirmed, c.s.timeout, h)
	c.s.c.work.Add(1) // Campaign, which calls, is still counted, so Close cannot have passed Wait
	go h.keep(term, keeper)
	return term
}

// lossOf says how a term ends when its session does.
func lossOf(cause error) error {
	if errors.Is(cause, errEnded) {
		return fmt.Errorf("%w: %w", fence.ErrResigned, cause)
	}
	return fmt.Errorf("%w: %w", fence.ErrExpired, cause)
}
