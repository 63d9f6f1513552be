package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
	marks "github.com/ringfence/ringfence/internal/marks/postgres"
	"github.com/ringfence/ringfence/internal/refusal"
)

// Beginner is what begins a transaction: a *pgxpool.Pool, a *pgxpool.Conn, a *pgx.Conn. A pooler in transaction mode may
// stand between it and the server.
type Beginner interface {
	BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error)
}

// Begin opens a transaction under a claim, at any isolation level, in the one round trip that BEGIN takes: for programs
// that lead without a guard in between, such as several resources over one pool. Until it ends, a newer leader is not
// let in; one that comes ends this transaction's backend, and nothing of it has landed then. Call it again for every
// further resource with Enter.
//
// Refusals: ErrStale; ErrNotLeader when the mark is not raised to the claim or may have been lost: fence.Raising
// raises it and begins again; ErrOtherIssuer; ErrNotInstalled. SQLSTATE 40001 at a level above READ COMMITTED: begin again.
// After an error there is no transaction, and nothing has landed.
//
// The answer to the tx's own Commit can be lost as in any transaction. With pgx 5.12 pgconn.SafeToRetry must not be asked
// about that: it says yes to pgconn.ErrConnClosed, which a connection that breaks during COMMIT also gives.
//
// A tx that is closed by ROLLBACK TO a savepoint keeps its claim only if it was made outside that savepoint.
func Begin(ctx context.Context, db Beginner, c fence.Claim, o pgx.TxOptions) (pgx.Tx, error) {
	return marks.Begin(ctx, db, c, o)
}

// Enter puts a transaction that is open under one more claim. Above READ COMMITTED, and wherever data was read before,
// it fails with 40001 when a raise came after the transaction's snapshot. After an error roll back.
func Enter(ctx context.Context, tx pgx.Tx, c fence.Claim) error { return marks.Enter(ctx, tx, c) }

// Explain says what an error that a guard or one of the schema's functions answered means: a *fence.Refusal, so that
// errors.Is(err, fence.ErrStale) works, or what an operator has to do. Others come back as they are.
func Explain(err error, c fence.Claim) error { return marks.Explain(err, c) }

// Option adds a claim to the value of the startup option "options" (and so of PGOPTIONS): how a token is carried to a
// guard by drivers that Pool is not for.
func Option(options string, c fence.Claim) string { return refusal.StartupOption(options, c) }
