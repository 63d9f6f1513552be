package pgmarks

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringfence/ringfence/fence"
)

// Attach puts a connection under a claim for the rest of its life, as a guard would: the session is
// registered, a raise ends it, and its transactions need no check of their own. The connection ends
// with the claim's term, whatever else it is used for.
//
// Attach returns false where it cannot work, and the caller uses Begin instead: behind a pooler,
// for a superuser, at a default isolation level above READ COMMITTED, and on a server that allows
// prepared transactions. It returns an error when a transaction is open on the connection. Other
// errors are those of Begin.
func Attach(ctx context.Context, conn *pgx.Conn, c fence.Claim) (bool, error) {
	if conn.PgConn().TxStatus() != 'I' {
		return false, fmt.Errorf("attach under %s: a transaction is open on the connection: "+
			"attach before it, or use Enter in it", c)
	}
	var attached bool
	pid := int64(conn.PgConn().PID())
	err := conn.QueryRow(ctx,
		`select ringfence.attach($1::bigint, $2::text, $3::bigint, $4::text, $5::text)`,
		pid, c.Resource, int64(c.Token), c.Issuer, c.Candidate).Scan(&attached)
	if err != nil {
		return false, fmt.Errorf("attach under %s: %w", c, Explain(err, c))
	}
	return attached, nil
}

// BeginAttached begins a transaction on an attached connection, for ringfence.publish. publish
// checks that the session is recorded, and enters if it is not: a pooler may have substituted
// another one.
func BeginAttached(
	ctx context.Context, db Beginner, c fence.Claim, o pgx.TxOptions,
) (pgx.Tx, error) {
	return beginWith(ctx, db, c, o, underAttached(c))
}

// BeginAttachedWith is BeginAttached together with the transaction's first statement, in one round
// trip. o has no BeginQuery, which could be more than one statement. If the connection is outside a
// transaction after an error, BEGIN has not run, and nothing else has.
func BeginAttachedWith(
	ctx context.Context, conn *pgxpool.Conn, c fence.Claim, o pgx.TxOptions,
	sql string, args ...any,
) (tx pgx.Tx, tag pgconn.CommandTag, err error) {
	var b pgx.Batch
	b.BeginTx(o)
	b.Queue(underAttached(c))
	b.Queue(sql, args...)
	results := conn.SendBatch(ctx, &b)
	for range b.Len() {
		if tag, err = results.Exec(); err != nil {
			break
		}
	}
	if closed := results.Close(); err == nil {
		err = closed
	}
	return results.Tx(), tag, err
}

// underAttached returns the statement after BEGIN, which publish looks for.
func underAttached(c fence.Claim) string {
	claim := literal("attached " + c.Token.String() + " " + string(c.Issuer))
	return "set local ringfence." + identifier(string(c.Resource)) + " = " + claim
}
