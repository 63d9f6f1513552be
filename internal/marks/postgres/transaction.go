package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringfence/ringfence/fence"
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
	return beginWith(ctx, db, c, o, enterQuery(c))
}

// beginWith begins a transaction and runs one more statement, in one round trip.
func beginWith(ctx context.Context, db Beginner, c fence.Claim, o pgx.TxOptions, also string) (pgx.Tx, error) {
	if o.BeginQuery == "" {
		o.BeginQuery = beginQuery(o)
	}
	o.BeginQuery += "\n; " + also // on a line of its own: the caller's may end in a comment
	tx, err := db.BeginTx(ctx, o)
	if err != nil {
		rollBack(ctx, db)
		return nil, fmt.Errorf("begin under %s: %w", c, Explain(err, c))
	}
	return tx, nil
}

// Enter puts a transaction that is open under one more claim. Above READ COMMITTED, and wherever data was read before,
// it fails with 40001 when a raise came after the transaction's snapshot. After an error roll back.
func Enter(ctx context.Context, tx pgx.Tx, c fence.Claim) error {
	if _, err := tx.Exec(ctx, enterQuery(c)); err != nil {
		return fmt.Errorf("enter under %s: %w", c, Explain(err, c))
	}
	return nil
}

// beginQuery is the statement for the options, as pgx would have it.
func beginQuery(o pgx.TxOptions) string {
	words := []string{"begin"}
	if o.IsoLevel != "" {
		words = append(words, "isolation level", string(o.IsoLevel))
	}
	if o.AccessMode != "" {
		words = append(words, string(o.AccessMode))
	}
	if o.DeferrableMode != "" {
		words = append(words, string(o.DeferrableMode))
	}
	return strings.Join(words, " ")
}

// enterQuery has its values written in: a statement with parameters could not be sent along with BEGIN.
func enterQuery(c fence.Claim) string {
	return fmt.Sprintf("select ringfence.enter(%s, %d, %s)", literal(string(c.Resource)), c.Token, literal(string(c.Issuer)))
}

// literal is a string constant that means the same whatever standard_conforming_strings is.
func literal(s string) string {
	return "E'" + escapes.Replace(s) + "'"
}

var escapes = strings.NewReplacer(`\`, `\\`, `'`, `''`, "\x00", "")

// rollBack ends what BEGIN has begun when enter failed behind it. A pool throws such a connection away by itself.
func rollBack(ctx context.Context, db Beginner) {
	var conn *pgx.Conn
	switch db := db.(type) {
	case *pgx.Conn:
		conn = db
	case *pgxpool.Conn:
		conn = db.Conn()
	}
	if conn == nil || conn.IsClosed() || conn.PgConn().TxStatus() == 'I' {
		return
	}
	if _, err := conn.Exec(ctx, "rollback"); err != nil {
		_ = conn.Close(ctx) // it is of no use to anybody
	}
}

// Explain says what an error of one of ringfence's functions means: a refusal, and what to do. Others come back as they are.
func Explain(err error, c fence.Claim) error { return explain(Refused(err, c)) }
