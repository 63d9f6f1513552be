package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
)

// Campaign implements fence.Elector. While the server does not answer it keeps trying; if ctx ends
// then, the error has the last failure.
func (c *Coordinator) Campaign(
	ctx context.Context, r fence.Resource, holder string,
) (*fence.Term, error) {
	if _, err := fence.ParseResource(string(r)); err != nil {
		return nil, err
	}
	if err := fence.CheckHolder(holder); err != nil {
		return nil, err
	}
	if err := c.begin(); err != nil {
		return nil, err
	}
	defer c.work.Done()
	ctx, stop := c.withClose(ctx)
	defer stop()
	return c.campaigns.Campaign(ctx, r, holder)
}

// Enrol implements campaign.Candidate: it makes the row.
func (e *candidate) Enrol(ctx context.Context) (fence.Token, error) {
	return ask(ctx, e.s.c, "enrol in the election of "+string(e.Resource),
		func(ctx context.Context, conn *pgx.Conn) (token fence.Token, err error) {
			err = row(ctx, conn, []any{&token}, "enrol($1, $2, $3, $4)",
				e.s.id, e.Key, string(e.Resource), e.Holder)
			if err == nil && token == 0 {
				err = errOver
			}
			return token, err
		})
}
