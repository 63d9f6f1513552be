// Package pgtest prepares and reads databases of Postgres beside what a test is about.
package pgtest

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/test/must"
)

// Connect opens a session that ends with the test. A cleanup may call it, too.
func Connect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	ctx, cancel := within(t)
	defer cancel()
	c, err := pgx.Connect(ctx, url)
	must.Succeed(t, err)
	t.Cleanup(func() {
		ctx, cancel := within(t)
		defer cancel()
		_ = c.Close(ctx)
	})
	return c
}

// Exec runs statements as one message, in a session of their own.
func Exec(t testing.TB, url, statements string) {
	t.Helper()
	session(t, url, statements, func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.PgConn().Exec(ctx, statements).ReadAll()
		return err
	})
}

// Value returns the value of a query that returns one.
func Value[T any](t testing.TB, url, query string, args ...any) (value T) {
	t.Helper()
	session(t, url, query, func(ctx context.Context, c *pgx.Conn) error {
		return c.QueryRow(ctx, query, args...).Scan(&value)
	})
	return value
}

// Column returns the values of a query of one column.
func Column[T any](t testing.TB, url, query string, args ...any) (values []T) {
	t.Helper()
	session(t, url, query, func(ctx context.Context, c *pgx.Conn) (err error) {
		rows, _ := c.Query(ctx, query, args...) // rows has the error, too
		values, err = pgx.CollectRows(rows, pgx.RowTo[T])
		return err
	})
	return values
}

func session(t testing.TB, url, sql string, use func(context.Context, *pgx.Conn) error) {
	t.Helper()
	ctx, cancel := within(t)
	defer cancel()
	c, err := pgx.Connect(ctx, url)
	must.Succeed(t, err)
	defer c.Close(ctx)
	if err := use(ctx, c); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// within returns a context that ends if the server hangs, and not with the test.
func within(t testing.TB) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
}
