package pgjournal

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/postgres/pgcause"
)

// Transact implements checkpoint.Transactor.
func (j *Journal) Transact(
	ctx context.Context, c fence.Claim,
	work func(ctx context.Context, tx pgx.Tx) (checkpoint.Checkpoint, error),
) error {
	conn, err := j.pool.Acquire(ctx)
	if err != nil {
		return answered(ctx, err, c)
	}
	defer conn.Release() // closes a connection in a transaction, which rolls back
	cp, err := j.transact(ctx, conn, c, work)
	if err != nil {
		return err
	}
	j.queueNotice(cp.Task)
	return nil
}

func (j *Journal) transact(
	ctx context.Context, conn *pgxpool.Conn, c fence.Claim,
	work func(ctx context.Context, tx pgx.Tx) (checkpoint.Checkpoint, error),
) (checkpoint.Checkpoint, error) {
	tx, err := j.begin(ctx, conn, c)
	if err != nil {
		return checkpoint.Checkpoint{}, answered(ctx, err, c)
	}
	cp, err := work(ctx, tx)
	if d, ok := tx.(*deferred); ok {
		if err == nil {
			d.begun(ctx) // if the step has used nothing of it
		}
		if d.err != nil {
			return cp, answered(ctx, d.err, c)
		}
	}
	if err != nil {
		// If this fails, the connection is gone, and the transaction with it.
		_ = tx.Rollback(context.WithoutCancel(ctx))
		return cp, workError(conn, err)
	}
	document, err := j.encode(c, cp)
	if err != nil {
		_ = tx.Rollback(context.WithoutCancel(ctx))
		return cp, err
	}
	return cp, j.commit(ctx, conn, c, cp, document)
}

// commit writes the checkpoint and commits, in one round trip. If the write fails, the server skips
// the commit.
func (j *Journal) commit(
	ctx context.Context, conn *pgxpool.Conn, c fence.Claim, cp checkpoint.Checkpoint,
	document []byte,
) error {
	var b pgx.Batch
	b.Queue(`select ringfence.publish($1::text, $2::bigint, $3::text, $4::text, $5::bigint, $6::json)`,
		c.Resource, int64(c.Token),
		c.Issuer, cp.Task, cp.Version, string(document))
	b.Queue(`commit`)
	results := conn.SendBatch(ctx, &b)
	_, err := results.Exec()
	published := err == nil
	var tag pgconn.CommandTag
	if published {
		tag, err = results.Exec()
	}
	if closed := results.Close(); err == nil {
		err = closed
	}
	pg, answered := errors.AsType[*pgconn.PgError](err)
	undone := answered && pgcause.Undone(pg)
	switch {
	case tag.String() == "COMMIT":
		return nil // whatever came behind it
	case undone && published && pgcause.OfClass(pg, "42"):
		// of a deferred trigger, not of our schema
		return fmt.Errorf("%w: %w", checkpoint.ErrUncommitted, err)
	case undone:
		return uncommitted(fromServer(pg, err, c))
	case err != nil:
		return landed(ctx, err, c)
	}
	// Postgres answers ROLLBACK to the COMMIT of a failed transaction.
	return fmt.Errorf("%w: it had failed before its end, so all of it was rolled back",
		checkpoint.ErrUncommitted)
}

// uncommitted marks an error that the step's work has caused, and not the journal.
func uncommitted(err error) error {
	for _, other := range []error{checkpoint.ErrTransient, checkpoint.ErrUnknown,
		checkpoint.ErrConflict, checkpoint.ErrOtherResource} {
		if errors.Is(err, other) {
			return err
		}
	}
	if raw := new(pgconn.PgError); !errors.As(err, &raw) || isRefusal(err) ||
		pgcause.OfClass(raw, "42") {
		return err
	}
	return fmt.Errorf("%w: %w", checkpoint.ErrUncommitted, err)
}

// workError returns the error of work, as ErrTransient if a retry may succeed. Nothing has landed.
// If work sets a deadline of its own, the deadline closes the connection too; that is an error of
// the step.
func workError(conn *pgxpool.Conn, err error) error {
	own := errors.As(err, new(*checkpoint.PanicError)) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
	if !own && (conn.Conn().IsClosed() || retryable(err)) {
		return fmt.Errorf("%w: %w", checkpoint.ErrTransient, err)
	}
	return err
}
