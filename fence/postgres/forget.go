package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
)

var _ fence.Forgetter = (*Coordinator)(nil)

// Forget implements fence.Forgetter, in one transaction. It deletes the elections' rows. Tokens are
// numbers of one sequence for all elections, so the next one is higher than all before.
func (c *Coordinator) Forget(ctx context.Context, rs ...fence.Resource) error {
	names := make([]string, len(rs))
	for i, r := range rs {
		if _, err := fence.ParseResource(string(r)); err != nil {
			return err
		}
		names[i] = string(r)
	}
	_, err := ask(ctx, c, "forget elections", func(
		ctx context.Context, conn *pgx.Conn,
	) (struct{}, error) {
		_, err := conn.Exec(ctx, "select ringfence_elections.forget($1)", names)
		return struct{}{}, err
	})
	return err
}
