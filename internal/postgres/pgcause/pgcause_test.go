package pgcause_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/postgres/pgcause"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

func TestMain(m *testing.M) { os.Exit(serverstest.RunMain(m)) }

// failed returns the error of a connection that cannot be made, as Plain shows it.
func failed(t *testing.T, url string, limit time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	c, err := pgx.Connect(ctx, url)
	if err == nil {
		_ = c.Close(t.Context())
		t.Fatal("a connection to", url)
	}
	return pgcause.Plain(fmt.Errorf("open: %w", err))
}

func TestEveryCauseIsSaidOnceAndTheLastOneFirst(t *testing.T) {
	address := serverstest.SharedPostgres(t).Addr()
	held := serverstest.NewRelay(t, address)
	held.Hold()
	free := serverstest.FreeAddresses(t, 2)
	for name, c := range map[string]struct{ url, want string }{
		"a login that is refused": {"postgres://nobody@" + address + "/postgres",
			"open: " + address + `: FATAL: role "nobody" does not exist (SQLSTATE 28000)`},
		"a server that is down": {"postgres://a@" + free[0] + "/x",
			"open: dial tcp " + free[0] + ": connect: connection refused"},
		"two servers that are down": {"postgres://a@" + free[0] + "," + free[1] + "/x",
			"open: dial tcp " + free[1] + ": connect: connection refused; dial tcp " + free[0] +
				": connect: connection refused"},
		"a server that is frozen": {"postgres://a@" + held.Addr() + "/x",
			"open: " + held.Addr() + " did not answer in time"},
		"a host that does not exist": {"postgres://a@no.such.host.invalid/x", "no such host"},
		"a server without TLS": {"postgres://a@" + address + "/x?sslmode=require",
			"open: " + address + ": tls error: server refused TLS connection"},
	} {
		t.Run(name, func(t *testing.T) {
			limit := time.Minute
			if strings.Contains(name, "frozen") {
				limit = time.Second
			}
			err := failed(t, c.url, limit)
			if err.Error() != c.want && strings.Count(err.Error(), c.want) != 1 {
				t.Errorf("got  %s\nwant %s", err, c.want)
			}
			if pgcause.NoTLS(err) != strings.Contains(name, "TLS") {
				t.Errorf("NoTLS is %t", pgcause.NoTLS(err))
			}
		})
	}
}
