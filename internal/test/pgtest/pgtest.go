// Package pgtest prepares and reads databases of Postgres beside what a test is about.
package pgtest

import (
	"context"
	"sync"
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

// Exec runs statements as one message, or a statement with arguments, outside of the sessions of
// the test itself.
func Exec(t testing.TB, url, statements string, args ...any) {
	t.Helper()
	observe(t, url, statements, func(ctx context.Context, c *pgx.Conn) error {
		if len(args) > 0 {
			_, err := c.Exec(ctx, statements, args...)
			return err
		}
		_, err := c.PgConn().Exec(ctx, statements).ReadAll()
		return err
	})
}

var roles sync.Mutex

// Role creates a role, unless the server has it. options follow its name. Roles belong to the whole
// server, which tests share, and Postgres refuses one of two that create the same at once.
func Role(t testing.TB, url, name, options string) {
	t.Helper()
	roles.Lock()
	defer roles.Unlock()
	if !Value[bool](t, url, "select exists (select from pg_roles where rolname = $1)", name) {
		Exec(t, url, "create role "+name+" "+options)
	}
}

// Value returns the value of a query that returns one.
func Value[T any](t testing.TB, url, query string, args ...any) (value T) {
	t.Helper()
	observe(t, url, query, func(ctx context.Context, c *pgx.Conn) error {
		return c.QueryRow(ctx, query, args...).Scan(&value)
	})
	return value
}

// Column returns the values of a query of one column.
func Column[T any](t testing.TB, url, query string, args ...any) (values []T) {
	t.Helper()
	observe(t, url, query, func(ctx context.Context, c *pgx.Conn) (err error) {
		rows, _ := c.Query(ctx, query, args...) // rows has the error, too
		values, err = pgx.CollectRows(rows, pgx.RowTo[T])
		return err
	})
	return values
}

// HasLoginTriggers returns whether the server has login event triggers, as direct sessions need.
func HasLoginTriggers(t testing.TB, url string) bool {
	t.Helper()
	return Value[bool](t, url, "select current_setting('server_version_num')::integer >= 170000")
}

// within returns a context that ends if the server hangs, and not with the test. A slow disk takes
// long for the files of a new database.
func within(t testing.TB) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(t.Context()), 2*time.Minute)
}
