package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
	store "github.com/ringfence/ringfence/internal/marks/postgres"
	"github.com/ringfence/ringfence/internal/refusal"
)

// answered says what an error of a call means that changes nothing, or did not come to its COMMIT.
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
		return told(pg, err, c)
	case settled(err):
		return err
	}
	return fmt.Errorf("%w: %w", checkpoint.ErrTransient, err)
}

// landed is answered for a call whose COMMIT may have been reached: what the server did not say it
// did is not known.
func landed(ctx context.Context, err error, c fence.Claim) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && !down(pg) {
		return told(pg, err, c)
	}
	if unsent(err) {
		return answered(ctx, err, c)
	}
	return fmt.Errorf("%w: %w", checkpoint.ErrUnknown, err)
}

// unsent says that the server was not asked. ErrConnClosed does not say so, though the driver calls
// it safe to retry: pgx 5.12 also returns it when a connection breaks while an answer is awaited
// (MultiResultReader.NextResult looks at the next message and drops the error).
func unsent(err error) bool {
	return pgconn.SafeToRetry(err) && !errors.Is(err, pgconn.ErrConnClosed)
}

// told turns the server's word into the journal's.
func told(pg *pgconn.PgError, err error, c fence.Claim) error {
	switch {
	case pg.Code == refusal.CheckpointConflict:
		return fmt.Errorf("%w: %s; %s", checkpoint.ErrConflict, pg.Message, pg.Detail)
	case pg.Code == refusal.OtherResource:
		return fmt.Errorf("%w: %s; %s", checkpoint.ErrOtherResource, pg.Message, pg.Detail)
	case again(err):
		return fmt.Errorf("%w: %w", checkpoint.ErrTransient, err)
	}
	return store.Explain(err, c)
}

// again says that the same may succeed when it is tried again: the server is going down or coming
// up, has too much to do, or another transaction was in the way. Of a stale leader the next try
// will tell so.
func again(err error) bool {
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

// down is said of errors with which the server ends the connection: class 57P (operator
// intervention), 08 (connection).
func down(pg *pgconn.PgError) bool {
	return strings.HasPrefix(pg.Code, "57P") || strings.HasPrefix(pg.Code, "08")
}

func isRefusal(err error) bool {
	var r *fence.Refusal
	return errors.As(err, &r)
}

// settled errors are about the call itself, not about the way to the server.
func settled(err error) bool {
	return errors.Is(err, checkpoint.ErrCorrupt)
}
