package pgjournal

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks/pgmarks"
)

// attachment records the first claim under which a connection was used.
type attachment struct {
	claim    fence.Claim
	attached bool
	defers   bool // BEGIN may wait for the first statement
	opened   opened
}

// attachmentKey is its key in the connection's custom data.
const attachmentKey = "ringfence_private.attachment"

// begin begins a transaction under a claim. On an attached connection it needs no check, and may
// begin with its first statement.
func (j *Journal) begin(ctx context.Context, conn *pgxpool.Conn, c fence.Claim) (pgx.Tx, error) {
	a, err := j.attach(ctx, conn.Conn(), c)
	switch {
	case err != nil:
		return nil, err
	case !a.attached || a.claim != c:
		return pgmarks.Begin(ctx, conn, c, j.o.Transaction)
	case a.defers:
		return &deferred{
			ctx: ctx, conn: conn, claim: c, o: j.o.Transaction, opened: a.opened,
		}, nil
	}
	return pgmarks.BeginAttached(ctx, conn, c, j.o.Transaction)
}

// attach attaches a connection to the first claim under which it is used. It does not attach it to
// a second claim. If that claim has the same resource, a raise is about to end the connection; if
// it has another one, a raise of either resource must not end the other's work.
func (j *Journal) attach(
	ctx context.Context, conn *pgx.Conn, c fence.Claim,
) (attachment, error) {
	if j.o.Shared {
		return attachment{}, nil
	}
	kept := conn.PgConn().CustomData()
	if a, ok := kept[attachmentKey].(attachment); ok {
		return a, nil
	}
	attached, err := pgmarks.Attach(ctx, conn, c)
	if err != nil {
		return attachment{}, err
	}
	a := attachment{
		claim: c, attached: attached, defers: j.defers(conn.Config()), opened: opened{},
	}
	kept[attachmentKey] = a
	return a, nil
}

// defers reports whether transactions may begin with their first statement. The driver must keep
// prepared statements. A tracer would see a batch instead of a query.
func (j *Journal) defers(cfg *pgx.ConnConfig) bool {
	return cfg.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement && cfg.Tracer == nil &&
		j.o.Transaction.BeginQuery == ""
}
