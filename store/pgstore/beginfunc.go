package pgstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/postgres/pgcause"
)

// rollbackTime bounds a rollback whose context may have ended.
const rollbackTime = 5 * time.Second

// BeginFunc runs work in a transaction under a claim (Begin), and commits it if work returns nil.
// Otherwise, also after a panic, it rolls back. If the mark is not raised to the claim, as after a
// restart of the server, r raises it before work is called; see NewRaiser. Refusals are a
// *fence.Refusal, wherever in the transaction they come. work is called at most once.
//
// After an error nothing has landed, unless it matches fence.ErrUnknown: then the answer to COMMIT
// was lost.
func BeginFunc(
	ctx context.Context, db Beginner, r fence.Raiser, c fence.Claim, o pgx.TxOptions,
	work func(tx pgx.Tx) error,
) error {
	var tx pgx.Tx
	err := c.RetryRaised(ctx, r, func(ctx context.Context) (err error) {
		tx, err = Begin(ctx, db, c, o)
		return err
	})
	if err != nil {
		return err
	}
	defer func() { // without an effect after Commit
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTime)
		defer cancel()
		_ = tx.Rollback(ctx)
	}()
	if err := work(tx); err != nil {
		return Explain(err, c)
	}
	return committed(tx.Commit(ctx), c)
}

// committed says of an error of Commit whether the transaction may have landed.
func committed(err error, c fence.Claim) error {
	pg, answered := errors.AsType[*pgconn.PgError](err)
	if err == nil || errors.Is(err, pgx.ErrTxCommitRollback) || answered && pgcause.Undone(pg) {
		return Explain(err, c)
	}
	return fmt.Errorf("commit: %w: %w", fence.ErrUnknown, Explain(err, c))
}
