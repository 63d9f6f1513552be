package pgguard

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/guard/guardtest"
	"github.com/ringfence/ringfence/internal/test/pgtest"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

func TestWritesThroughGuardsNeverGoBackToAnOlderToken(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	guards := guardtest.NewFleet(3, func() *guarded {
		return guardBefore(t, h.pg, h.database, setup{drain: time.Nanosecond})
	})
	property := &guardtest.Histories{
		Open: func(
			ctx context.Context, r *rand.Rand, resource string, token fence.Token,
		) (guardtest.Writer, error) {
			url := guards.Pick(r).withOptions("app", optionsOf(resource, token))
			cfg, err := pgx.ParseConfig(url)
			if err != nil {
				return nil, err
			}
			return newLease(ctx, cfg, resource, token)
		},
		Written: h.written, Fault: guards.Replace,
	}
	property.FindNoStaleWrite(t)
}

// Without a guard the same work must find stale writes, or the test above proves nothing.
func TestWithoutAGuardTheSameWorkFindsStaleWrites(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	property := &guardtest.Histories{
		Open: func(
			ctx context.Context, _ *rand.Rand, resource string, token fence.Token,
		) (guardtest.Writer, error) {
			cfg, err := pgx.ParseConfig(h.pg.URL("app", h.database))
			if err != nil {
				return nil, err
			}
			cfg.RuntimeParams["options"] = optionsOf(resource, token)
			return newLease(ctx, cfg, resource, token)
		},
		Written: h.written,
	}
	property.FindStaleWrites(t)
}

// history is a database that keeps the order of commits: each write increments a counter, whose row
// stays locked until the write has committed.
type history struct {
	pg       *servers.Postgres
	database string
}

func newHistory(t *testing.T) history {
	t.Helper()
	pg := serverstest.SharedPostgres(t)
	h := history{pg, prepared(t, pg, serverstest.FreshDatabase(t, pg))}
	pgtest.Exec(t, pg.URL("postgres", h.database), `
	    create table counter (resource text primary key, n bigint);
	    insert into counter values ('orders', 0), ('stock', 0);
	    create table history (resource text, token bigint, n bigint);
	    grant all on counter, history to app`)
	return h
}

func (h history) written(t testing.TB, resource string) []fence.Token {
	t.Helper()
	return pgtest.Column[fence.Token](t, h.pg.URL("postgres", h.database),
		`select token from history where resource = $1 order by n`, resource)
}

func optionsOf(resource string, token fence.Token) string {
	return fmt.Sprintf("-c fence.%s=%d -c lock_timeout=50", resource, token)
}

// lease is a leader's connection.
type lease struct {
	conn     *pgx.Conn
	resource string
	token    fence.Token
	open     bool // a transaction that has written is open
}

func newLease(
	ctx context.Context, cfg *pgx.ConnConfig, resource string, token fence.Token,
) (guardtest.Writer, error) {
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return &lease{conn: conn, resource: resource, token: token}, nil
}

// Close is guardtest.Writer's.
func (l *lease) Close(r *rand.Rand) {
	if r.IntN(2) == 0 {
		_ = l.conn.PgConn().Conn().Close()
	}
	_ = l.conn.Close(context.Background())
}

// Write is guardtest.Writer's: it commits at once, or leaves its transaction open for the next
// Write.
func (l *lease) Write(ctx context.Context, r *rand.Rand) error {
	const entry = `with c as (update counter set n = n + 1 where resource = $1 returning n)
	    insert into history select $1, $2, n from c`
	if l.open {
		l.open = false
		_, err := l.conn.Exec(ctx, "commit")
		return err
	}
	stays := r.IntN(3) == 0
	if stays {
		if _, err := l.conn.Exec(ctx, "begin"); err != nil {
			return err
		}
	}
	_, err := l.conn.Exec(ctx, entry, l.resource, int64(l.token))
	l.open = stays && err == nil
	return err
}
