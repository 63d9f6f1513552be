package pgguard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/guard/guardtest"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/marks/pgmarks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/pgtest"
	"github.com/ringfence/ringfence/internal/test/poll"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// guarded is a guard in front of a real database.
type guarded struct {
	*guardtest.Guard
	t        *testing.T
	pg       *servers.Postgres
	database string
	store    *pgmarks.Store
	protocol *Protocol

	mu    sync.Mutex
	conns []*pgx.Conn
}

// setup changes the defaults of guardBefore.
type setup struct {
	Options
	control string                        // URL of the control connection
	store   pgmarks.Options               // for Open
	wrap    func(marks.Store) marks.Store // the store that admission uses
	notify  func(marks.Event)             // gets the events of admission, besides the log
	drain   time.Duration                 // 2 s when zero
	limit   func(*guard.Server)           // sets limits
}

// fenced starts a guard for a fresh database of the shared server. Nobody verifies tokens, so a
// test may present any token.
func fenced(t *testing.T) *guarded {
	t.Helper()
	return fencedBy(t, setup{})
}

func fencedBy(t *testing.T, with setup) *guarded {
	t.Helper()
	pg := serverstest.SharedPostgres(t)
	return guardBefore(t, pg, prepared(t, pg, serverstest.FreshDatabase(t, pg)), with)
}

// another starts a second guard for the same database.
func (g *guarded) another(with setup) *guarded {
	g.t.Helper()
	return guardBefore(g.t, g.pg, g.database, with)
}

// prepared creates the roles, the schema and a ledger in a database, and returns its name.
func prepared(t *testing.T, pg *servers.Postgres, database string) string {
	t.Helper()
	admin := pg.URL("postgres", database)
	pgtest.Role(t, admin, "guard_role", "login")
	pgtest.Role(t, admin, "app", "login")
	pgtest.Exec(t, admin, `create table if not exists ledger (
	    n bigserial, token bigint, note text);
	  grant all on ledger, ledger_n_seq to app`)
	must.Succeed(t, pgmarks.Install(t.Context(), admin, "guard_role"))
	return database
}

// guardBefore starts a guard for a prepared database.
func guardBefore(t *testing.T, pg *servers.Postgres, database string, with setup) *guarded {
	t.Helper()
	if with.control == "" {
		with.control = pg.URL("guard_role", database)
	}
	s, err := pgmarks.Open(with.control, with.store)
	must.Succeed(t, err)
	o := guardtest.Options{Drain: with.drain, Change: with.limit}
	var p *Protocol
	g := guardtest.Start(t, o, func(log *slog.Logger, m *guard.Metrics) guard.Protocol {
		with.Audit = guard.NewAudit(log, m, "postgres")
		t.Cleanup(with.Audit.Close)
		p = New(with.complete(s, with.Audit.Event))
		return p
	})
	return &guarded{Guard: g, t: t, pg: pg, database: database, store: s, protocol: p}
}

// complete fills in the store, and the admission with its store and events.
func (with setup) complete(s *pgmarks.Store, events func(marks.Event)) Options {
	o := with.Options
	o.Store = s
	if o.Admission == nil {
		o.Admission = &marks.Admission{Authority: marks.Unverified{}}
	}
	o.Admission.Store = s
	if with.wrap != nil {
		o.Admission.Store = with.wrap(s)
	}
	o.Admission.Notify = func(e marks.Event) {
		events(e)
		if with.notify != nil {
			with.notify(e)
		}
	}
	return o
}

// url returns a connection string through the guard.
func (g *guarded) url(user string, token fence.Token) string {
	return g.withOptions(user, fmt.Sprintf("-c fence.orders=%d", token))
}

// withOptions returns a connection string through the guard with these options.
func (g *guarded) withOptions(user, options string) string {
	escaped := strings.ReplaceAll(url.QueryEscape(options), "+", "%20")
	return fmt.Sprintf("postgres://%s@%s/%s?sslmode=prefer&options=%s", user, g.Addr,
		g.database, escaped)
}

// dial opens a session under a token. A refusal is its error.
func (g *guarded) dial(token fence.Token) (*pgx.Conn, error) {
	return g.dialURL(g.url("app", token))
}

func (g *guarded) dialURL(url string) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(g.t.Context()), time.Minute)
	defer cancel()
	c, err := pgx.Connect(ctx, url)
	if err == nil {
		g.t.Cleanup(func() { _ = c.Close(context.Background()) })
		g.mu.Lock()
		defer g.mu.Unlock()
		g.conns = append(g.conns, c)
	}
	return c, err
}

// connectTo connects to any server.
func (g *guarded) connectTo(url string) *pgx.Conn {
	g.t.Helper()
	return pgtest.Connect(g.t, url)
}

// hangUp closes all connections, so that a guard that stops need not wait for its clients.
func (g *guarded) hangUp() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range g.conns {
		_ = c.Close(context.Background())
	}
}

func (g *guarded) open(token fence.Token) *pgx.Conn {
	g.t.Helper()
	c, err := g.dial(token)
	must.Succeed(g.t, err)
	return c
}

// exec runs a statement that must succeed.
func (g *guarded) exec(c *pgx.Conn, statement string, args ...any) {
	g.t.Helper()
	if _, err := c.Exec(g.t.Context(), statement, args...); err != nil {
		g.t.Fatalf("%s: %v", statement, err)
	}
}

// count runs a query on the database, not through the guard.
func (g *guarded) count(query string) int {
	g.t.Helper()
	return pgtest.Value[int](g.t, g.pg.URL("postgres", g.database), query)
}

// sessionsWhere is a query for count. Other tests have their databases on the same server.
const sessionsWhere = "select count(*) from pg_stat_activity " +
	"where datname = current_database() and "

// until waits until count of the query is want.
func (g *guarded) until(query string, want int) {
	g.t.Helper()
	g.eventually(query, func(n int) bool { return n == want })
}

// eventually counts until the number is a wanted one, and returns it.
func (g *guarded) eventually(query string, wanted func(int) bool) (n int) {
	g.t.Helper()
	const limit = 2 * time.Minute // the sweep removes a record within one minute
	if !poll.Until(limit, func() bool {
		n = g.count(query)
		return wanted(n)
	}) {
		g.t.Fatalf("%s is %d, and did not become what it should", query, n)
	}
	return n
}

// code returns the SQLSTATE of an error, or the text of an error that has none.
func code(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return fmt.Sprint(err)
}

func wantCode(t *testing.T, err error, want string) {
	t.Helper()
	if got := code(err); got != want {
		t.Errorf("got %s (%v), want SQLSTATE %s", got, err, want)
	}
}
