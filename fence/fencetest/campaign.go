package fencetest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
)

// errAgain: the candidacy is gone; the campaign enrols again.
var errAgain = errors.New("the candidacy is gone")

// Campaign implements elector.Coordinator.
func (c *Client) Campaign(
	ctx context.Context, r fence.Resource, holder string,
) (*fence.Term, error) {
	if _, err := fence.ParseResource(string(r)); err != nil {
		return nil, err
	}
	if err := elector.CheckHolder(holder); err != nil {
		return nil, err
	}
	if err := c.join(); err != nil {
		return nil, err
	}
	defer c.terms.Done()
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		term, err := c.attempt(ctx, r, holder)
		if !errors.Is(err, errAgain) {
			return term, err
		}
	}
}

// join makes Close wait for the campaign.
func (c *Client) join() error {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	c.terms.Add(1)
	return nil
}

// attempt is one candidacy, from enrolment to victory or errAgain.
func (c *Client) attempt(
	ctx context.Context, r fence.Resource, holder string,
) (*fence.Term, error) {
	e, err := c.enrol(ctx, r, holder)
	if err != nil {
		return nil, err
	}
	heard := time.Now()
	for {
		start := time.Now()
		leads, changed, err := c.look(e)
		switch {
		case err == nil:
			heard = start
		case !errors.Is(err, errCut):
			c.leave(e)
			return nil, err
		case time.Since(heard) >= c.m.timeout:
			c.leave(e)
			return nil, errAgain
		}
		if leads {
			return c.win(e, start), nil
		}
		if err := c.waitUpTo(ctx, changed, c.m.timeout/4); err != nil {
			c.leave(e)
			return nil, err
		}
	}
}

// enrol returns the campaign's entry. If the reply to an enrolment was lost, enrol finds the entry
// by its id and does not make a second one.
func (c *Client) enrol(ctx context.Context, r fence.Resource, holder string) (*entry, error) {
	id := rand.Text()
	for {
		var e *entry
		err := c.patiently(ctx, func() {
			if e = c.m.find(r, id); e == nil {
				e = c.m.enrol(r, holder, id)
				c.entries[e] = true
			}
			if c.loseReply {
				c.loseReply, e = false, nil
			}
		})
		if e != nil || err != nil {
			return e, err
		}
	}
}

// look makes a round trip and reports whether the entry leads. If the entry is gone, it returns
// errAgain.
func (c *Client) look(e *entry) (leads bool, changed chan struct{}, err error) {
	c.m.mu.Lock()
	changed = c.m.changed
	c.m.mu.Unlock()
	gone := false
	err = c.roundTrip(func() {
		if gone = e.gone; !gone {
			c.m.touch(e)
			leads = c.m.elections[e.resource][0] == e
		}
	})
	if err == nil && gone {
		err = errAgain
	}
	return leads, changed, err
}

// win makes the term and the goroutine that keeps it. look has just proved that e leads.
func (c *Client) win(e *entry, confirmed time.Time) *fence.Term {
	c.m.mu.Lock()
	claim := fence.Claim{
		Resource: e.resource, Token: e.Token, Issuer: c.m.issuer, Holder: e.Holder, Candidate: e.ID,
	}
	c.m.mu.Unlock()
	term, keeper := elector.NewTerm(claim, confirmed, c.m.timeout, &hold{c, e})
	c.terms.Add(1) // allowed, because the calling Campaign is still counted
	go c.keep(e, term, keeper)
	return term
}

// keep runs until the term is lost or the client is closed.
func (c *Client) keep(e *entry, term *fence.Term, keeper *elector.Keeper) {
	defer c.terms.Done()
	for {
		start := time.Now()
		_, changed, err := c.look(e)
		switch {
		case err == nil:
			keeper.Confirm(start)
		case errors.Is(err, errCut):
			keeper.Suspend()
		case errors.Is(err, ErrClosed):
			keeper.Lose(fmt.Errorf("%w: %w", fence.ErrResigned, ErrClosed))
		case e.expired:
			keeper.Lose(fence.ErrExpired)
		default:
			keeper.Lose(fence.ErrDeposed)
		}
		if term.State() == fence.Lost {
			return
		}
		err = c.waitUpTo(term.Context(), changed, c.m.timeout/4)
		if err != nil && c.ctx.Err() == nil {
			return
		}
	}
}

// leave removes the entry. If the client is cut off, that happens at Heal, or its session expires
// before.
func (c *Client) leave(e *entry) {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	delete(c.entries, e)
	if c.cut {
		c.left = append(c.left, e)
		return
	}
	c.m.remove(e)
}

// waitUpTo returns nil when changed is closed or the time is up.
func (c *Client) waitUpTo(ctx context.Context, changed <-chan struct{}, most time.Duration) error {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-changed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.ctx.Done():
		return ErrClosed
	}
}

// hold is a elector.Backing: the term's connection to its entry.
type hold struct {
	c *Client
	e *entry
}

// Acknowledge implements elector.Backing.
func (h *hold) Acknowledge(ctx context.Context) error {
	gone := false
	err := h.c.patiently(ctx, func() {
		if gone = h.e.gone; !gone {
			h.e.Ready = true
			h.c.m.tell()
		}
	})
	if err == nil && gone {
		err = fence.ErrDeposed
	}
	return err
}

// Release implements elector.Backing.
func (h *hold) Release(context.Context) error {
	err := h.c.roundTrip(func() { h.c.m.remove(h.e) })
	if errors.Is(err, ErrClosed) {
		return nil // already released by Close
	}
	h.c.leave(h.e)
	h.c.m.mu.Lock()
	defer h.c.m.mu.Unlock()
	if h.e.gone {
		return nil
	}
	return fmt.Errorf("the candidate of %s=%s may stay until its session expires: %w",
		h.e.resource, h.e.Token, err)
}
