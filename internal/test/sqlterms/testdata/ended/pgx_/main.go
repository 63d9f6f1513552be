// Program pgx_ says what pgx shows of a take-over.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

func attempt(ctx context.Context, pause bool) error {
	cfg, err := pgx.ParseConfig("")
	if err != nil {
		return err
	}
	// PgBouncer before 1.21 knows no prepared statements
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
	c, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	if statement := os.Getenv("STATEMENT"); statement != "" {
		_, err := c.Exec(ctx, statement)
		return err
	}
	tx, err := c.Begin(ctx)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "select ringfence.enter($1)", os.Getenv("PASS")); err != nil {
		return err
	}
	if pause {
		fmt.Println("inside")
		_, _ = fmt.Scanln()
	}
	if _, err := tx.Exec(ctx, "insert into ledger values ('late')"); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

func main() {
	for _, pause := range []bool{true, false} {
		err := attempt(context.Background(), pause)
		if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
			fmt.Printf("%s %T: %s\n", pg.Code, pg, pg.Message)
		} else {
			fmt.Println("none", err)
		}
	}
}
