package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
)

var _ fence.Forgetter = (*Coordinator)(nil)

// Forget implements fence.Forgetter. It deletes the election's row. Tokens are numbers of one sequence
// for all elections, so the next one is higher than all before.
func (c *Coordinator) Forget(ctx context.Context, r fence.Resource) error {
	if _, err := fence.ParseResource(string(r)); err != nil {
		return err
	}
	_, err := ask(ctx, c, "forget "+string(r), func(
		ctx context.Context, conn *pgx.Conn,
	) (struct{}, error) {
		_, err := conn.Exec(ctx, "select ringfence_elections.forget($1)", string(r))
		return struct{}{}, err
	})
	return err
}
