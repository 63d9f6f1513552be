package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
)

// win makes the term of a candidate that leads.
func (e *candidate) win(ctx context.Context, issuer fence.Issuer) (*fence.Term, error) {
	confirmed, err := e.s.renewed(ctx)
	if err != nil {
		return nil, err
	}
	claim := fence.Claim{Resource: e.resource, Token: e.token, Issuer: issuer, Holder: e.holder}
	term, err := e.begin(claim, confirmed)
	if err != nil {
		return nil, err
	}
	e.s.c.work.Go(func() { e.keep(term) }) // the campaign that calls is still counted
	return term, nil
}

// begin makes the term, unless the candidate is gone by now. The session tells it of every beat
// from here on.
func (e *candidate) begin(c fence.Claim, confirmed time.Time) (*fence.Term, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cause != nil {
		return nil, e.cause
	}
	term, keeper := fence.NewTerm(c, confirmed, e.s.ttl, e)
	e.keeper = keeper
	return term, nil
}

// keep waits for the end of the term. A term that is lost at the server leaves nothing. One that
// its holder has given up, or that a store has superseded, keeps its place until Release: the
// holder is still draining.
func (e *candidate) keep(term *fence.Term) {
	<-term.Context().Done()
	cause := context.Cause(term.Context())
	if errors.Is(cause, fence.ErrExpired) || errors.Is(cause, fence.ErrDeposed) {
		e.leave()
	}
}

// Acknowledge implements fence.Backing.
func (e *candidate) Acknowledge(ctx context.Context) error {
	_, err := ask(ctx, e.s.c, "acknowledge the term",
		func(ctx context.Context, conn *pgx.Conn) (there bool, err error) {
			err = row(ctx, conn, []any{&there}, "acknowledge($1, $2)", e.id, int64(e.token))
			if err == nil && !there {
				err = errGone
			}
			return there, err
		})
	if !errors.Is(err, errGone) {
		return err
	}
	if _, err := e.s.lookAt([]*candidate{e}); errors.Is(err, errOver) {
		e.s.end(errOver)
	}
	return cmp.Or(e.s.ended(), fence.ErrDeposed)
}

// Release implements fence.Backing: it deletes the candidate's row, whose id no other candidate
// ever has. If the server does not answer, the session deletes the row as soon as it does, or runs
// out.
func (e *candidate) Release(ctx context.Context) error {
	if e.s.ended() != nil {
		e.forget()
		return nil // the row is gone with the session, or will be before anybody leads
	}
	_, err := ask(ctx, e.s.c, "resign",
		func(ctx context.Context, conn *pgx.Conn) (struct{}, error) {
			_, err := conn.Exec(ctx, "select ringfence_elections.leave($1, $2)", e.s.id, []string{e.id})
			return struct{}{}, err
		})
	if err == nil || errors.Is(err, ErrClosed) {
		e.forget()
		return nil // Close ends the session
	}
	e.leave()
	return fmt.Errorf("the candidate of %s=%s may stay until Postgres answers "+
		"or its session runs out: %w", e.resource, e.token, err)
}
