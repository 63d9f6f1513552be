package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
)

// Acknowledge implements elector.Backing.
func (e *candidate) Acknowledge(ctx context.Context) error {
	_, err := ask(ctx, e.s.c, "acknowledge the term",
		func(ctx context.Context, conn *pgx.Conn) (there bool, err error) {
			err = row(ctx, conn, []any{&there}, "acknowledge($1, $2)", e.Key, int64(e.Token()))
			if err == nil && !there {
				err = errGone
			}
			return there, err
		})
	if !errors.Is(err, errGone) {
		return err
	}
	if _, err := e.s.lookAt([]*candidate{e}); errors.Is(err, errOver) {
		e.s.End(errOver)
	}
	return cmp.Or(e.s.Ended(), fence.ErrDeposed)
}

// Release implements elector.Backing: it deletes the candidate's row, whose id no other candidate
// ever has. If the server does not answer, the session deletes the row as soon as it does, or runs
// out.
func (e *candidate) Release(ctx context.Context) error {
	if e.s.Ended() != nil {
		e.s.Forget(e.Key)
		return nil // the row is gone with the session, or will be before anybody leads
	}
	_, err := ask(ctx, e.s.c, "resign",
		func(ctx context.Context, conn *pgx.Conn) (none struct{}, err error) {
			return none, unheld(ctx, conn, []string{string(e.Resource)}, func() error {
				_, err := perform("resign($1, $2)", e.s.id, e.Key)(ctx, conn)
				return err
			})
		})
	e.s.c.teller.resigned(e.Resource)
	if err == nil || errors.Is(err, ErrClosed) {
		e.s.Forget(e.Key)
		return nil // Close ends the session
	}
	e.Leave()
	return fmt.Errorf("the candidate of %s=%s may stay until Postgres answers "+
		"or its session runs out: %w", e.Resource, e.Token(), err)
}
