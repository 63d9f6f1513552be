package pgjournal

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks/pgmarks"
)

// deferred is a step's transaction on an attached connection. It sends BEGIN together with the
// step's first statement, which saves a round trip, and holds no transaction open before it.
//
// Only Exec with arguments is sent that way, and only a statement that began a transaction of this
// connection before. Then the driver has prepared it, and does not need to do so before BEGIN.
// Everything else begins first, and so does a statement that could not be sent: then it fails, or
// not, as in any transaction.
type deferred struct {
	ctx    context.Context // of the step, for methods that take none
	conn   *pgxpool.Conn
	claim  fence.Claim
	o      pgx.TxOptions
	opened opened

	tx  pgx.Tx // nil until it has begun
	err error  // why it could not begin; tx is closed then
}

var _ pgx.Tx = (*deferred)(nil)

// opened has the statements that can be sent with BEGIN.
type opened map[string]struct{}

// mostOpened limits a program that makes a new statement for each step.
const mostOpened = 100

// begun begins the transaction if it has not begun. It never returns nil. If the transaction cannot
// begin, every use of it fails, and the journal returns the reason whatever the step does.
func (d *deferred) begun(ctx context.Context) pgx.Tx {
	if d.tx == nil {
		d.tx, d.err = pgmarks.BeginAttached(ctx, d.conn, d.claim, d.o)
		if d.err != nil {
			d.tx = closedTx(d.err)
		}
	}
	return d.tx
}

// closedTx returns a transaction that has ended.
func closedTx(err error) pgx.Tx {
	var b pgx.Batch
	b.BeginTx(pgx.TxOptions{})
	return pgx.FailedBatchResults(&b, err).Tx()
}

// Exec implements pgx.Tx.
func (d *deferred) Exec(
	ctx context.Context, sql string, args ...any,
) (pgconn.CommandTag, error) {
	if d.tx != nil {
		return d.tx.Exec(ctx, sql, args...)
	}
	if _, ok := d.opened[sql]; ok && plain(args) {
		tx, tag, err := pgmarks.BeginAttachedWith(ctx, d.conn, d.claim, d.o, sql, args...)
		if err == nil || d.conn.Conn().IsClosed() || d.conn.Conn().PgConn().TxStatus() != 'I' {
			d.tx = tx
			return tag, err
		}
	}
	tx := d.begun(ctx)
	if d.err != nil {
		return pgconn.CommandTag{}, d.err
	}
	tag, err := tx.Exec(ctx, sql, args...)
	if err == nil && plain(args) && len(d.opened) < mostOpened {
		d.opened[sql] = struct{}{}
	}
	return tag, err
}

// plain reports whether there are arguments, and no options of the driver among them. Without
// arguments the driver prepares nothing, and there may be more than one statement.
func plain(args []any) bool {
	if len(args) == 0 {
		return false
	}
	switch args[0].(type) {
	case pgx.QueryExecMode, pgx.QueryResultFormats, pgx.QueryResultFormatsByOID, pgx.QueryRewriter:
		return false
	}
	return true
}

// Query implements pgx.Tx.
func (d *deferred) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return d.begun(ctx).Query(ctx, sql, args...)
}

// QueryRow implements pgx.Tx.
func (d *deferred) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return d.begun(ctx).QueryRow(ctx, sql, args...)
}

// SendBatch implements pgx.Tx.
func (d *deferred) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	return d.begun(ctx).SendBatch(ctx, b)
}

// CopyFrom implements pgx.Tx.
func (d *deferred) CopyFrom(
	ctx context.Context, table pgx.Identifier, columns []string, rows pgx.CopyFromSource,
) (int64, error) {
	return d.begun(ctx).CopyFrom(ctx, table, columns, rows)
}

// Prepare implements pgx.Tx.
func (d *deferred) Prepare(
	ctx context.Context, name, sql string,
) (*pgconn.StatementDescription, error) {
	return d.begun(ctx).Prepare(ctx, name, sql)
}

// Conn implements pgx.Tx. The connection is in the transaction, or closed: nothing may run on it
// outside.
func (d *deferred) Conn() *pgx.Conn {
	d.begun(d.ctx)
	if d.err != nil {
		_ = d.conn.Conn().Close(d.ctx)
	}
	return d.conn.Conn()
}

// LargeObjects implements pgx.Tx.
func (d *deferred) LargeObjects() pgx.LargeObjects { return d.begun(d.ctx).LargeObjects() }

// Begin implements pgx.Tx with a savepoint.
func (d *deferred) Begin(ctx context.Context) (pgx.Tx, error) { return d.begun(ctx).Begin(ctx) }

// Commit implements pgx.Tx. A step must not call it; publish then finds out.
func (d *deferred) Commit(ctx context.Context) error { return d.begun(ctx).Commit(ctx) }

// Rollback implements pgx.Tx. The journal calls it when the step has failed.
func (d *deferred) Rollback(ctx context.Context) error {
	if d.tx == nil {
		d.tx = closedTx(pgx.ErrTxClosed)
		return nil
	}
	return d.tx.Rollback(ctx)
}
