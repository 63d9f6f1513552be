package serverstest

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
)

// NotOlder skips a test if a program of Postgres, such as pg_dump, is of an older version than the
// server: it refuses newer servers. A program that is missing fails the test.
func NotOlder(t testing.TB, pg *servers.Postgres, program string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program, "--version").Output()
	if err != nil {
		t.Fatalf("%s: %v", program, err)
	}
	_, version, _ := strings.Cut(string(out), "(PostgreSQL) ")
	major, server := 0, 0
	if _, err := fmt.Sscan(version, &major); major == 0 {
		t.Fatalf("%s says that it is %q: %v", program, out, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := pgx.Connect(ctx, pg.URL("postgres", "postgres"))
	must.Succeed(t, err)
	defer c.Close(ctx)
	const number = "select current_setting('server_version_num')::integer / 10000"
	must.Succeed(t, c.QueryRow(ctx, number).Scan(&server))
	if major < server {
		t.Skipf("%s is of version %d, and the server of %d", program, major, server)
	}
}
