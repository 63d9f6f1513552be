package seal

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks/postgres"
	"github.com/ringfence/ringfence/internal/refusal"
)

// Request says which tables to seal or to unseal.
type Request struct {
	Resource fence.Resource // whose leader may write; only for Protect
	Tables   []string       // as in SQL: entry, shop.entry, "Entry"; in public if no schema is named
	Schemas  []string       // every table in them
}

// looking runs f in a transaction that changes nothing. In it, names without a schema mean only
// built-in functions and tables.
func looking(ctx context.Context, c *pgx.Conn, f func(tx pgx.Tx) error) error {
	tx, err := c.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return err
	}
	defer tx.Rollback(context.WithoutCancel(ctx)) //nolint:errcheck // it has changed nothing
	if _, err := tx.Exec(ctx, `set local search_path = pg_catalog, pg_temp`); err != nil {
		return err
	}
	return f(tx)
}

// installed returns fence.ErrNotInstalled unless the schema has the version of this program.
func installed(ctx context.Context, tx pgx.Tx) error {
	var there bool
	err := tx.QueryRow(ctx, `select to_regclass('ringfence.installation') is not null`).Scan(&there)
	if err != nil {
		return err
	}
	if !there {
		return refusal.NotInstalled("the database has no schema ringfence", nil)
	}
	var version int
	if err := tx.QueryRow(ctx, `select ringfence.version()`).Scan(&version); err != nil {
		return fmt.Errorf("read the version of the schema ringfence: %w", err)
	}
	if version != postgres.Version {
		return refusal.OtherVersion(version, postgres.Version)
	}
	return nil
}
