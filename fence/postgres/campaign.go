package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/backoff"
)

// Campaign implements fence.Elector. While the server does not answer it keeps trying; if ctx ends
// then, the error has the last failure.
func (c *Coordinator) Campaign(
	ctx context.Context, r fence.Resource, holder string,
) (*fence.Term, error) {
	if _, err := fence.ParseResource(string(r)); err != nil {
		return nil, err
	}
	if err := c.begin(); err != nil {
		return nil, err
	}
	defer c.work.Done()
	ctx, stop := c.withClose(ctx)
	defer stop()
	var last error
	for failures := 0; ctx.Err() == nil; {
		term, enrolled, err := c.try(ctx, r, holder)
		switch {
		case err == nil:
			return term, nil
		case refused(err):
			return nil, fmt.Errorf("campaign for %s: %w", r, err)
		case ctx.Err() != nil:
			continue // err is the end of ctx
		case enrolled:
			failures = 0
		}
		failures, last = failures+1, err
		wait := backoff.After(failures, backoff.Least, backoff.Most)
		c.log.Warn("campaign starts again",
			"resource", r, "holder", holder, "error", err, "in", wait)
		backoff.Pause(ctx, wait)
	}
	if last != nil {
		return nil, fmt.Errorf("campaign for %s: %w (last failure: %w)",
			r, context.Cause(ctx), last)
	}
	return nil, fmt.Errorf("campaign for %s: %w", r, context.Cause(ctx))
}

// try is one candidate: it wins, or leaves.
func (c *Coordinator) try(
	ctx context.Context, r fence.Resource, holder string,
) (_ *fence.Term, enrolled bool, err error) {
	s, err := c.sessionOf(ctx)
	if err != nil {
		return nil, false, err
	}
	e, err := s.enrol(ctx, r, holder)
	if err != nil {
		return nil, false, err
	}
	issuer, err := e.await(ctx)
	if err != nil {
		e.leave()
		return nil, true, err
	}
	term, err := e.win(ctx, issuer)
	if err != nil {
		e.leave()
		return nil, true, err
	}
	return term, true, nil
}

// enrol makes the row of a candidate. The session knows the id before the server does, so that a
// sweep spares the row; an enrolment that fails leaves it to the sweep.
func (s *session) enrol(ctx context.Context, r fence.Resource, holder string) (*candidate, error) {
	e := &candidate{s: s, resource: r, holder: holder, id: newID(), turn: make(chan struct{})}
	s.mu.Lock()
	s.known[e.id] = e
	s.mu.Unlock()
	token, err := ask(ctx, s.c, "enrol in the election of "+string(r),
		func(ctx context.Context, conn *pgx.Conn) (token int64, err error) {
			err = row(ctx, conn, []any{&token}, "enrol($1, $2, $3, $4)",
				s.id, e.id, string(r), holder)
			if err == nil && token == 0 {
				err = errOver
			}
			return token, err
		})
	if err != nil {
		e.leave()
		return nil, err
	}
	s.mu.Lock()
	e.token = fence.Token(token)
	s.mu.Unlock()
	if err := s.ended(); err != nil {
		e.lose(err) // the session may have ended before it knew the token
	}
	s.plan(e, time.Now())
	return e, nil
}
