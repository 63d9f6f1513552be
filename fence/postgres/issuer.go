package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
)

// Issuer implements fence.Observer.
func (c *Coordinator) Issuer(ctx context.Context) (fence.Issuer, error) {
	issuer, _, err := c.Leaders(ctx)
	return issuer, err
}

// RenewIssuer implements fence.IssuerRenewer. Of several at once, one renews and all return what it
// has made.
func (c *Coordinator) RenewIssuer(ctx context.Context) (fence.Issuer, error) {
	before, err := c.Issuer(ctx)
	if err != nil {
		return "", err
	}
	return ask(ctx, c, "renew the issuer",
		func(ctx context.Context, conn *pgx.Conn) (fence.Issuer, error) {
			var issuer string
			err := row(ctx, conn, []any{&issuer}, "renew_issuer($1)", string(before))
			return fence.Issuer(issuer), err
		})
}
