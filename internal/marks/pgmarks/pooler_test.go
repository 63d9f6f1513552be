package pgmarks

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// pooler starts a PgBouncer in transaction mode with two server connections, which log in as the
// application.
func (d database) pooler(t *testing.T) *servers.PgBouncer {
	t.Helper()
	b := serverstest.PgBouncer(t, d.pg, servers.PgBouncerOptions{})
	must.Succeed(t, b.Stop())
	file := filepath.Join(b.Dir(), "pgbouncer.ini")
	config, err := os.ReadFile(file)
	must.Succeed(t, err)
	changed := strings.NewReplacer("user=postgres", "user=app",
		"pool_mode = session", "pool_mode = transaction",
		"default_pool_size = 250", "default_pool_size = 2").Replace(string(config))
	must.Succeed(t, os.WriteFile(file, []byte(changed), 0o644))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	must.Succeed(t, b.Start(ctx))
	return b
}

func TestTransactionsAreFencedThroughAPoolerInTransactionMode(t *testing.T) {
	t.Parallel()
	d := led(t)
	b := d.pooler(t)
	for _, mode := range []string{"exec", "simple_protocol"} {
		old := d.lead(t, d.next())
		pool := d.appPool(t, b.URL("app", d.name),
			"&pool_max_conns=8&default_query_exec_mode="+mode)
		// all server connections of the pooler
		held := []pgx.Tx{d.transact(t, pool, old, pgx.TxOptions{}),
			d.transact(t, pool, old, pgx.TxOptions{})}
		c := d.lead(t, d.next())
		for _, tx := range held {
			if err := tx.Commit(t.Context()); err == nil {
				t.Errorf("%s: a transaction was committed after the raise", mode)
			}
		}
		for range 5 {
			if err := try(t, pool, old, pgx.ReadCommitted); !errors.Is(err, fence.ErrStale) {
				t.Errorf("%s: got %v", mode, err)
			}
			if err := d.transact(t, pool, c, pgx.TxOptions{}).Commit(t.Context()); err != nil {
				t.Errorf("%s: %v", mode, err)
			}
		}
		if d.landed(t, old) != "0" || d.landed(t, c) != "5" {
			t.Errorf("%s: %s old and %s new entries", mode, d.landed(t, old), d.landed(t, c))
		}
	}
}
