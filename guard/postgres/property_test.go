package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/servers"
	"github.com/ringfence/ringfence/internal/servers/serverstest"
)

// The property: per resource, in the order in which the database committed them, the tokens of the writes never go
// down. The order is the database's own: every write counts up a row that it keeps locked until it commits.

const (
	leaders = 8  // goroutines
	moves   = 60 // of each
)

// histories is one run of the property.
type histories struct {
	t       *testing.T
	connect func(ctx context.Context, r *rand.Rand, resource string, token fence.Token) (*pgx.Conn, error)
	fault   func(r *rand.Rand) // may be nil

	mu     sync.Mutex
	newest map[string]fence.Token
	kept   []*lease // sessions that somebody may write on later, whatever has happened in the meantime
	writes int
}

// lease is a session and what it believes.
type lease struct {
	conn     *pgx.Conn
	resource string
	token    fence.Token
	open     bool // in a transaction that has written
}

func TestWritesThroughGuardsNeverGoBackToAnOlderToken(t *testing.T) {
	pg := serverstest.SharedPostgres(t)
	database := prepared(t, pg, serverstest.FreshDatabase(t, pg))
	guards := &fleet{t: t, pg: pg, database: database}
	for range 3 {
		guards.all = append(guards.all, guards.start())
	}
	h := &histories{t: t, connect: guards.connect, fault: guards.replaceOne}
	h.play(pg, database)
	if bad := h.violations(pg, database); len(bad) > 0 {
		t.Errorf("%d writes of deposed leaders, such as %s", len(bad), bad[0])
	}
}

// The same without a guard: were no violation found here, the test above would prove nothing.
func TestWithoutAGuardTheSameWorkFindsStaleWrites(t *testing.T) {
	pg := serverstest.SharedPostgres(t)
	database := prepared(t, pg, serverstest.FreshDatabase(t, pg))
	h := &histories{t: t, connect: func(ctx context.Context, _ *rand.Rand, resource string, token fence.Token) (*pgx.Conn, error) {
		cfg, err := pgx.ParseConfig(pg.URL("app", database))
		if err != nil {
			return nil, err
		}
		cfg.RuntimeParams["options"] = optionsOf(resource, token)
		return pgx.ConnectConfig(ctx, cfg)
	}}
	h.play(pg, database)
	bad := h.violations(pg, database)
	t.Logf("%d stale writes", len(bad))
	if len(bad) == 0 {
		t.Error("no stale write was found where nothing prevents them")
	}
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

func (f *fleet) connect(ctx context.Context, r *rand.Rand, resource string, token fence.Token) (*pgx.Conn, error) {
	f.mu.Lock()
	g := f.all[r.IntN(len(f.all))]
	f.mu.Unlock()
	return pgx.Connect(ctx, g.withOptions("app", optionsOf(resource, token)))
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

// seed is RINGFENCE_SEED, or new.
func seed(t *testing.T) uint64 {
	s, err := strconv.ParseUint(os.Getenv("RINGFENCE_SEED"), 10, 64)
	if err != nil {
		s = rand.Uint64()
	}
	t.Logf("to make the same moves again: RINGFENCE_SEED=%d", s)
	return s
}

func (h *histories) play(pg *servers.Postgres, database string) {
	h.t.Helper()
	sql(h.t, pg.URL("postgres", database), `create table counter (resource text primary key, n bigint);
	    insert into counter values ('orders', 0), ('stock', 0);
	    create table history (resource text, token bigint, n bigint);
	    grant all on counter, history to app`)
	h.newest = map[string]fence.Token{"orders": 1, "stock": 1}
	s := seed(h.t)
	ctx, cancel := context.WithTimeout(h.t.Context(), time.Minute)
	defer cancel()
	var all sync.WaitGroup
	for i := range leaders {
		r := rand.New(rand.NewPCG(s, uint64(i)))
		all.Go(func() {
			for range moves {
				h.move(ctx, r)
			}
		})
	}
	all.Wait()
	for _, l := range h.kept {
		_ = l.conn.Close(ctx)
	}
	if h.writes < leaders*moves/4 {
		h.t.Errorf("only %d writes: too few to prove anything", h.writes)
	}
}

// move is one thing that somebody does: open a session under a token and write, or write on one that was kept.
func (h *histories) move(ctx context.Context, r *rand.Rand) {
	l := h.take(r)
	if l == nil {
		var err error
		if l, err = h.elect(ctx, r); err != nil {
			return
		}
	}
	for range 1 + r.IntN(3) {
		if h.write(ctx, r, l) != nil {
			_ = l.conn.Close(ctx)
			return
		}
	}
	switch n := r.IntN(20); {
	case n < 14:
		h.keep(l)
	case n < 17:
		_ = l.conn.PgConn().Conn().Close() // dies without a word
	default:
		_ = l.conn.Close(ctx)
	}
	if h.fault != nil && r.IntN(40) == 0 {
		h.fault(r)
	}
}

// elect opens a session under the newest token, a newer one, or one that is out of date.
func (h *histories) elect(ctx context.Context, r *rand.Rand) (*lease, error) {
	resource := []string{"orders", "stock"}[r.IntN(2)]
	h.mu.Lock()
	if r.IntN(4) == 0 {
		h.newest[resource] += fence.Token(1 + r.IntN(3))
	}
	token := h.newest[resource]
	h.mu.Unlock()
	if r.IntN(3) == 0 {
		token = max(1, token-fence.Token(r.IntN(5)))
	}
	bounded, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	conn, err := h.connect(bounded, r, resource, token)
	if err != nil {
		return nil, err
	}
	return &lease{conn: conn, resource: resource, token: token}, nil
}

// write adds one entry, in one go or as a transaction that may stay open for a while.
func (h *histories) write(ctx context.Context, r *rand.Rand, l *lease) error {
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
	if err == nil {
		h.mu.Lock()
		h.writes++
		h.mu.Unlock()
	}
	l.open = stays && err == nil
	return err
}

func (h *histories) keep(l *lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.kept = append(h.kept, l)
}

// take is a session that was kept, or nil.
func (h *histories) take(r *rand.Rand) *lease {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.kept) == 0 || len(h.kept) < 12 && r.IntN(2) == 0 {
		return nil
	}
	i := r.IntN(len(h.kept))
	l := h.kept[i]
	h.kept[i] = h.kept[len(h.kept)-1]
	h.kept = h.kept[:len(h.kept)-1]
	return l
}

// violations are the writes that follow a write under a higher token.
func (h *histories) violations(pg *servers.Postgres, database string) (bad []string) {
	h.t.Helper()
	c, err := pgx.Connect(h.t.Context(), pg.URL("postgres", database))
	if err != nil {
		h.t.Fatal(err)
	}
	defer c.Close(context.Background())
	rows, err := c.Query(h.t.Context(), `select format('%s: write %s under token %s after %s', resource, n, token, highest)
	    from (select resource, n, token, max(token) over (partition by resource order by n) as highest from history) h
	    where token < highest order by resource, n`)
	if err != nil {
		h.t.Fatal(err)
	}
	bad, err = pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		h.t.Fatal(err)
	}
	return bad
}
