package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringfence/ringfence/fence"
	store "github.com/ringfence/ringfence/internal/marks/postgres"
)

// attachment is what a connection keeps of the first claim that it was used under.
type attachment struct {
	claim    fence.Claim
	attached bool
}

// mark is where it keeps it.
const mark = "ringfence.attachment"

// begin begins a transaction under a claim: without a check of its own on a connection that is
// attached.
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

// attach attaches a connection to the first claim that it is used under. One that has served
// another claim stays what it is: of the same resource it is about to be ended, and of another it
// shall not be ended for two.
func (j *Journal) attach(ctx context.Context, conn *pgx.Conn, c fence.Claim) (bool, error) {
	if j.o.Shared {
		return false, nil
	}
	kept := conn.PgConn().CustomData()
	if a, ok := kept[mark].(attachment); ok {
		return a.attached && a.claim == c, nil
	}
	attached, err := store.Attach(ctx, conn, c)
	if err == nil {
		kept[mark] = attachment{c, attached}
	}
	return attached, err
}
