package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringfence/ringfence/fence"
	store "github.com/ringfence/ringfence/internal/marks/postgres"
)

// attachment records the first claim under which a connection was used.
type attachment struct {
	claim    fence.Claim
	attached bool
}

// attachmentKey is its key in the connection's custom data.
const attachmentKey = "ringfence.attachment"

// begin begins a transaction under a claim. On an attached connection it needs no check.
func (j *Journal) begin(ctx context.Context, conn *pgxpool.Conn, c fence.Claim) (pgx.Tx, error) {
	attached, err := j.attach(ctx, conn.Conn(), c)
	if err != nil {
		return nil, err
	}
	if attached {
		return store.BeginAttached(ctx, conn, c, j.o.Transaction)
	}
	return store.Begin(ctx, conn, c, j.o.Transaction)
}

// attach attaches a connection to the first claim under which it is used. It does not attach it to
// a second claim. If that claim has the same resource, a raise is about to end the connection; if
// it has another one, a raise of either resource must not end the other's work.
func (j *Journal) attach(ctx context.Context, conn *pgx.Conn, c fence.Claim) (bool, error) {
	if j.o.Shared {
		return false, nil
	}
	kept := conn.PgConn().CustomData()
	if a, ok := kept[attachmentKey].(attachment); ok {
		return a.attached && a.claim == c, nil
	}
	attached, err := store.Attach(ctx, conn, c)
	if err == nil {
		kept[attachmentKey] = attachment{c, attached}
	}
	return attached, err
}
