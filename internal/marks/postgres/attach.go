package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
)

// Attach puts a connection under a claim for life, as a guard would: it is registered, a raise ends it, and its
// transactions need no check of their own. It reports false where that cannot be, and Begin is to be used: behind a
// pooler, for a superuser, at a default isolation level above READ COMMITTED, on a server that allows prepared transactions.
// Errors are those of Begin.
//
// The end of the claim's term is the end of the connection, whatever else it is used for. A transaction that is open on
// it is no place to attach: that is an error.
func Attach(ctx context.Context, conn *pgx.Conn, c fence.Claim) (bool, error) {
	if conn.PgConn().TxStatus() != 'I' {
		return false, fmt.Errorf("attach under %s: a transaction is open on the connection: attach before it, or use Enter in it", c)
	}
	var attached bool
	err := conn.QueryRow(ctx, `select ringfence.attach($1, $2, $3, $4)`, int64(conn.PgConn().PID()), c.Resource, int64(c.Token), c.Issuer).Scan(&attached)
	if err != nil {
		return false, fmt.Errorf("attach under %s: %w", c, Explain(err, c))
	}
	return attached, nil
}

// BeginAttached opens a transaction of an attached connection, for ringfence.publish, which looks whether the session is
// recorded, and enters if it is not: a pooler may have put another one in its place.
func BeginAttached(ctx context.Context, db Beginner, c fence.Claim, o pgx.TxOptions) (pgx.Tx, error) {
	claim := literal(fmt.Sprintf("attached %d %s", c.Token, c.Issuer))
	return beginWith(ctx, db, c, o, fmt.Sprintf("set local ringfence.%q = %s", c.Resource, claim))
}
