package serverstest

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/test/servers"
)

var databases atomic.Int64

// FreshDatabase creates an empty database for this test and returns its name. When the test ends,
// the database is dropped with all its sessions, unless the test has ended the server.
func FreshDatabase(t testing.TB, pg *servers.Postgres) string {
	t.Helper()
	name := fmt.Sprintf("test_%d_%d", os.Getpid(), databases.Add(1))
	if err := execute(t.Context(), pg, "create database "+name+" template template0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if pg.PID() == 0 {
			return // killed or closed by the test
		}
		ctx := context.WithoutCancel(t.Context())
		if err := execute(ctx, pg, "drop database if exists "+name+" with (force)"); err != nil {
			t.Errorf("drop the test's database: %v", err)
		}
	})
	return name
}

func execute(ctx context.Context, pg *servers.Postgres, sql string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute) // a slow disk takes long for new files
	defer cancel()
	c, err := pgx.Connect(ctx, pg.URL("postgres", "postgres"))
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	if _, err := c.Exec(ctx, sql); err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	return nil
}
