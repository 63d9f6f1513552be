package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/guard/guardtest"
	"github.com/ringfence/ringfence/internal/servers"
	"github.com/ringfence/ringfence/internal/servers/serverstest"
)

func TestWritesThroughGuardsNeverGoBackToAnOlderToken(t *testing.T) {
	pg := serverstest.SharedPostgres(t)
	database := withHistory(t, pg)
	guards := &fleet{t: t, pg: pg, database: database}
	for range 3 {
		guards.all = append(guards.all, guards.start())
	}
	h := &guardtest.Histories{Open: guards.open, Fault: guards.replaceOne}
	h.Play(t)
	if bad := descents(t, pg, database); len(bad) > 0 {
		t.Errorf("%d writes of deposed leaders, such as %s", len(bad), bad[0])
	}
}

// The same without a guard: were no violation found here, the test above would prove nothing.
func TestWithoutAGuardTheSameWorkFindsStaleWrites(t *testing.T) {
	pg := serverstest.SharedPostgres(t)
	database := withHistory(t, pg)
	h := &guardtest.Histories{Open: func(ctx context.Context, _ *rand.Rand, resource string, token fence.Token) (guardtest.Session, error) {
		cfg, err := pgx.ParseConfig(pg.URL("app", database))
		if err != nil {
			return nil, err
		}
		cfg.RuntimeParams["options"] = optionsOf(resource, token)
		return newLease(ctx, cfg, resource, token)
	}}
	h.Play(t)
	bad := descents(t, pg, database)
	t.Logf("%d stale writes", len(bad))
	if len(bad) == 0 {
		t.Error("no stale write was found where nothing prevents them")
	}
}

// withHistory makes a database in which the order of commits is kept: every write counts up a row, which stays locked
// until the write has committed.
func withHistory(t *testing.T, pg *servers.Postgres) (database string) {
	t.Helper()
	database = prepared(t, pg, serverstest.FreshDatabase(t, pg))
	sql(t, pg.URL("postgres", database), `create table counter (resource text primary key, n bigint);
	    insert into counter values ('orders', 0), ('stock', 0);
	    create table history (resource text, token bigint, n bigint);
	    grant all on counter, history to app`)
	return database
}

func descents(t *testing.T, pg *servers.Postgres, database string) (bad []string) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), pg.URL("postgres", database))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	for _, resource := range guardtest.Resources {
		rows, err := c.Query(t.Context(), `select token from history where resource = $1 order by n`, resource)
		if err != nil {
			t.Fatal(err)
		}
		tokens, err := pgx.CollectRows(rows, pgx.RowTo[fence.Token])
		if err != nil {
			t.Fatal(err)
		}
		bad = append(bad, guardtest.Descents(resource, tokens)...)
	}
	return bad
}

func optionsOf(resource string, token fence.Token) string {
	return fmt.Sprintf("-c fence.%s=%d -c lock_timeout=50", resource, token)
}

// fleet is several guards of one database, which are stopped hard and replaced now and then.
type fleet struct {
	t        *testing.T
	pg       *servers.Postgres
	database string
	mu       sync.Mutex
	all      []*guarded
}

func (f *fleet) start() *guarded {
	return guardBefore(f.t, f.pg, f.database, setup{drain: time.Nanosecond})
}

func (f *fleet) open(ctx context.Context, r *rand.Rand, resource string, token fence.Token) (guardtest.Session, error) {
	f.mu.Lock()
	g := f.all[r.IntN(len(f.all))]
	f.mu.Unlock()
	cfg, err := pgx.ParseConfig(g.withOptions("app", optionsOf(resource, token)))
	if err != nil {
		return nil, err
	}
	return newLease(ctx, cfg, resource, token)
}

func (f *fleet) replaceOne(r *rand.Rand) {
	fresh := f.start()
	f.mu.Lock()
	i := r.IntN(len(f.all))
	old := f.all[i]
	f.all[i] = fresh
	f.mu.Unlock()
	old.stop()
}

// lease is one connection of pgx.
type lease struct {
	conn     *pgx.Conn
	resource string
	token    fence.Token
	open     bool // in a transaction that has written
}

func newLease(ctx context.Context, cfg *pgx.ConnConfig, resource string, token fence.Token) (guardtest.Session, error) {
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return &lease{conn: conn, resource: resource, token: token}, nil
}

// Close is guardtest.Session's: in order, or without a word.
func (l *lease) Close(r *rand.Rand) {
	if r.IntN(2) == 0 {
		_ = l.conn.PgConn().Conn().Close()
	}
	_ = l.conn.Close(context.Background())
}

// Write is guardtest.Session's: in one go, or as a transaction that may stay open for a while.
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
