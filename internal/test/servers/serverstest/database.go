package serverstest

import (
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	"github.com/ringfence/ringfence/internal/test/pgtest"
	"github.com/ringfence/ringfence/internal/test/servers"
)

var databases atomic.Int64

// FreshDatabase creates an empty database for this test and returns its name. When the test ends,
// the database is dropped with all its sessions, unless the test has ended the server.
func FreshDatabase(t testing.TB, pg *servers.Postgres) string {
	t.Helper()
	name := fmt.Sprintf("test_%d_%d", os.Getpid(), databases.Add(1))
	admin := pg.URL("postgres", "postgres")
	pgtest.Exec(t, admin, "create database "+name+" template template0")
	t.Cleanup(func() {
		if pg.PID() != 0 { // not killed or closed by the test
			pgtest.Exec(t, admin, "drop database if exists "+name+" with (force)")
		}
	})
	return name
}
