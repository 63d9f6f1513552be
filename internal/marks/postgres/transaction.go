package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringfence/ringfence/fence"
)

// Beginner is store/postgres.Beginner.
type Beginner interface {
	BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error)
}

// Begin is store/postgres.Begin.
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

// Enter is store/postgres.Enter.
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
