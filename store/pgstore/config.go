package pgstore

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringfence/ringfence/internal/postgres/pglogin"
)

// ParseConfig reads the URL of a guard or a database, as NewRaiser takes it, for NewPool. Beside
// what pgxpool.ParseConfig knows, that is password_file or password_command: the password is read
// again for each new connection.
func ParseConfig(url string) (*pgxpool.Config, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("not a Postgres URL: %w", err)
	}
	source, err := pglogin.Prepare(cfg.ConnConfig)
	if err != nil || source == nil {
		return cfg, err
	}
	cfg.BeforeConnect = func(ctx context.Context, c *pgx.ConnConfig) error {
		return pglogin.Fill(ctx, c, source)
	}
	cfg.AfterConnect = func(context.Context, *pgx.Conn) error {
		source.Accepted()
		return nil
	}
	return cfg, nil
}
