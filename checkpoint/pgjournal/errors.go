package pgjournal

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks/pgmarks"
	"github.com/ringfence/ringfence/internal/postgres/pgcause"
	"github.com/ringfence/ringfence/internal/refusal"
)

// answered translates the error of a call that changes nothing, or that failed before its COMMIT.
func answered(ctx context.Context, err error, c fence.Claim) error {
	var pg *pgconn.PgError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", context.Cause(ctx), err)
	case isRefusal(err):
		return err
	case errors.As(err, &pg):
		return fromServer(pg, err, c)
	case errors.Is(err, checkpoint.ErrCorrupt): // the call itself, not the connection
		return err
	}
	return fmt.Errorf("%w: %w", checkpoint.ErrTransient, err)
}

// landed translates the error of a call that may have reached its COMMIT. Without an answer of the
// server that comes from before a commit the outcome is unknown. A guard that ends a session says
// why, and not whether what the session was committing has landed.
func landed(ctx context.Context, err error, c fence.Claim) error {
	if unsent(err) {
		return answered(ctx, err, c)
	}
	pg, answered := errors.AsType[*pgconn.PgError](err)
	if answered && pgcause.UndoneAlone(pg) {
		return fromServer(pg, err, c)
	}
	return fmt.Errorf("%w: %w", checkpoint.ErrUnknown, pgmarks.Refused(err, c))
}

// unsent reports whether nothing was sent to the server, or only a login. ErrConnClosed does not
// prove that, although the driver calls it safe to retry: pgx 5.12 also returns it if the
// connection breaks while the client waits for an answer (MultiResultReader.NextResult peeks at the
// next message and drops the error).
func unsent(err error) bool {
	if _, undialed := errors.AsType[*pgconn.ConnectError](err); undialed {
		return true
	}
	return pgconn.SafeToRetry(err) && !errors.Is(err, pgconn.ErrConnClosed)
}

// fromServer translates an error that the server has sent.
func fromServer(pg *pgconn.PgError, err error, c fence.Claim) error {
	switch {
	case pg.Code == refusal.CheckpointConflict:
		return fmt.Errorf("%w: %s; %s", checkpoint.ErrConflict, pg.Message, pg.Detail)
	case pg.Code == refusal.OtherResource:
		return fmt.Errorf("%w: %s; %s", checkpoint.ErrOtherResource, pg.Message, pg.Detail)
	case retryable(err):
		return fmt.Errorf("%w: %w", checkpoint.ErrTransient, err)
	}
	return pgmarks.Explain(err, c)
}

// retryable reports whether a retry may succeed: the server is starting or shutting down or has no
// connection left, or another transaction was in the way. If the leader is stale, the retry finds
// that out.
func retryable(err error) bool {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return false
	}
	if down(pg) {
		return true
	}
	switch pg.Code {
	case "40001", "40P01", "53300": // serialization_failure, deadlock_detected, too_many_connections
		return true
	}
	return false
}

// down reports whether the server ends the connection with this error: class 57P (operator
// intervention) or 08 (connection).
func down(pg *pgconn.PgError) bool {
	return pgcause.OfClass(pg, "57P", "08")
}

func isRefusal(err error) bool {
	_, refusal := errors.AsType[*fence.Refusal](err)
	return refusal
}
