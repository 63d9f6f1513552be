package pgstore

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks/pgmarks"
	"github.com/ringfence/ringfence/internal/refusal"
)

// Beginner begins transactions: a *pgxpool.Pool, a *pgxpool.Conn or a *pgx.Conn. There may be a
// pooler in transaction mode between it and the server.
type Beginner interface {
	BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error)
}

// Begin begins a transaction under a claim, at any isolation level, in the same round trip as
// BEGIN. It is for programs that lead without a guard, for example with several resources over one
// pool. For each further resource, call Enter in the transaction. No newer leader is admitted
// before the transaction ends. One that arrives ends the transaction's backend, and nothing has
// been written then.
//
// It refuses with ErrStale, with ErrOtherIssuer, with ErrNotInstalled, and with ErrNotRaised when
// the mark is not raised to the claim or may have been lost (fence.Claim.RetryRaised raises it and
// begins again). It fails with SQLSTATE 40001 at a level above READ COMMITTED: begin again. After
// an error there is no transaction, and nothing has been written.
//
// The answer to Commit can be lost, as in any transaction. With pgx 5.12 do not use
// pgconn.SafeToRetry to find out whether it took effect: it returns true for pgconn.ErrConnClosed,
// which a connection that breaks during COMMIT also returns.
//
// After ROLLBACK TO a savepoint, the transaction keeps only the claims that it entered before that
// savepoint.
func Begin(ctx context.Context, db Beginner, c fence.Claim, o pgx.TxOptions) (pgx.Tx, error) {
	return pgmarks.Begin(ctx, db, c, o)
}

// Enter puts an open transaction under one more claim. Above READ COMMITTED, and wherever data was
// read before, it fails with SQLSTATE 40001 if a raise came after the transaction's snapshot. After
// an error, roll back.
func Enter(ctx context.Context, tx pgx.Tx, c fence.Claim) error { return pgmarks.Enter(ctx, tx, c) }

// Explain interprets an error from a guard or from one of the schema's functions. It returns a
// *fence.Refusal, so that errors.Is(err, fence.ErrStale) works, or an error that says what an
// operator has to do. It returns other errors unchanged. A guard that ends a session while it
// commits answers with a refusal, too: after an error of Commit with severity FATAL the outcome is
// unknown.
func Explain(err error, c fence.Claim) error { return pgmarks.Explain(err, c) }

// AppendOptions adds a claim to the value of the startup parameter "options" (and so of PGOPTIONS).
// Use it to carry a token to a guard without NewPool.
func AppendOptions(options string, c fence.Claim) string {
	return refusal.StartupOption(options, c)
}
