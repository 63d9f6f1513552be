package pgmarks

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringfence/ringfence/fence"
)

// Beginner is documented at store/pgstore.Beginner.
type Beginner interface {
	BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error)
}

// Begin is documented at store/pgstore.Begin.
func Begin(ctx context.Context, db Beginner, c fence.Claim, o pgx.TxOptions) (pgx.Tx, error) {
	return beginWith(ctx, db, c, o, enterQuery(c))
}

// beginWith begins a transaction and runs a statement in it, in one round trip.
func beginWith(
	ctx context.Context, db Beginner, c fence.Claim, o pgx.TxOptions, statement string,
) (pgx.Tx, error) {
	if o.BeginQuery == "" {
		o.BeginQuery = beginQuery(o)
	}
	o.BeginQuery += "\n; " + statement // on a new line: the caller's query may end in a comment
	tx, err := db.BeginTx(ctx, o)
	if err != nil {
		rollBack(ctx, db)
		return nil, fmt.Errorf("begin under %s: %w", c, Explain(err, c))
	}
	return tx, nil
}

// Enter is documented at store/pgstore.Enter.
func Enter(ctx context.Context, tx pgx.Tx, c fence.Claim) error {
	if _, err := tx.Exec(ctx, enterQuery(c)); err != nil {
		return fmt.Errorf("enter under %s: %w", c, Explain(err, c))
	}
	return nil
}

// beginQuery returns the BEGIN statement that pgx would send for the options.
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

// enterQuery returns a statement without parameters, because one with parameters could not be sent
// together with BEGIN.
func enterQuery(c fence.Claim) string {
	return fmt.Sprintf("select ringfence.enter(%s::text, %d::bigint, %s::text, %s::text)",
		literal(string(c.Resource)), c.Token, literal(string(c.Issuer)), literal(c.Candidate))
}

// literal quotes s so that it means the same under any standard_conforming_strings.
func literal(s string) string {
	return "E'" + escapes.Replace(s) + "'"
}

var escapes = strings.NewReplacer(`\`, `\\`, `'`, `''`, "\x00", "")

// rollBack rolls back the transaction that BEGIN has opened, when the statement after it failed. A
// pool discards such a connection by itself.
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
		_ = conn.Close(ctx) // nobody can use it any more
	}
}

// Explain is documented at store/pgstore.Explain.
func Explain(err error, c fence.Claim) error { return explain(Refused(err, c)) }
