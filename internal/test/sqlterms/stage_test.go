package sqlterms

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/fence/postgres"
	"github.com/ringfence/ringfence/internal/marks/pgmarks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/pgtest"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

func TestMain(m *testing.M) { os.Exit(serverstest.RunMain(m)) }

const patience = time.Minute

// stage is a database with the schemas, and a table written for the roles app and second, which may
// get tokens.
type stage struct {
	testing.TB
	ctx  context.Context
	pg   *servers.Postgres
	name string
}

var roles sync.Once

func newStage(t testing.TB) *stage {
	t.Helper()
	return stageAt(t, serverstest.SharedPostgres(t), &roles)
}

func stageAt(t testing.TB, pg *servers.Postgres, roles *sync.Once) *stage {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	s := &stage{TB: t, ctx: ctx, pg: pg, name: serverstest.FreshDatabase(t, pg)}
	admin := s.connect("postgres")
	roles.Do(func() {
		s.exec(admin, "create role warden login; create role app login; create role second login; "+
			"create role stranger login")
	})
	must.Succeed(t, postgres.Install(ctx, s.url("postgres")))
	must.Succeed(t, s.install())
	s.exec(admin, "create table written (n bigserial, token bigint); grant all on written, "+
		"written_n_seq to app, second;"+inFunction("insert into written (token) values (1)"))
	return s
}

// install installs for the guard warden and the programs of app and second.
func (s *stage) install() error {
	roles := pgmarks.Roles{Guard: "warden", Leaders: []string{"app", "second"}}
	_, err := roles.Install(s.ctx, s.url("postgres"))
	return err
}

func (s *stage) url(role string) string { return s.pg.URL(role, s.name) }

// connect opens a connection that is closed with the test.
func (s *stage) connect(role string) *pgx.Conn {
	s.Helper()
	return pgtest.Connect(s, s.url(role))
}

// pooler starts PgBouncer in a mode, and returns the URL of the role app through it.
func (s *stage) pooler(mode string) (url string) {
	s.Helper()
	b := serverstest.PgBouncer(s.TB, s.pg, servers.PgBouncerOptions{User: "app", Mode: mode})
	return b.URL("app", s.name)
}

// pooled connects through a pooler. PgBouncer before 1.21 knows no prepared statements.
func (s *stage) pooled(url string) *pgx.Conn {
	s.Helper()
	cfg, err := pgx.ParseConfig(url)
	must.Succeed(s, err)
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
	c, err := pgx.ConnectConfig(s.ctx, cfg)
	must.Succeed(s, err)
	s.Cleanup(func() { _ = c.Close(context.WithoutCancel(s.ctx)) })
	return c
}

func (s *stage) exec(c *pgx.Conn, sql string) {
	s.Helper()
	if _, err := c.PgConn().Exec(s.ctx, sql).ReadAll(); err != nil {
		s.Fatalf("%s: %v", sql, err)
	}
}

// term is a row of ringfence.term.
type term struct {
	Resource string
	Token    int64
	Issuer   string
	Pass     *string
	Ready    bool
	Ending   int
	Leader   string
	Until    *time.Time
	Refused  *string
}

// querier is a connection or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// call runs a function of the contract.
func (s *stage) call(c querier, sql string, args ...any) ([]term, error) {
	rows, err := c.Query(s.ctx, "select * from ringfence."+sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[term])
}

// one runs a function that returns one row.
func (s *stage) one(c querier, sql string, args ...any) term {
	s.Helper()
	all, err := s.call(c, sql, args...)
	if err != nil || len(all) != 1 {
		s.Fatalf("%s: %+v, %v", sql, all, err)
	}
	return all[0]
}

// ready repeats a call until the term may begin.
func (s *stage) ready(c querier, sql string, args ...any) term {
	s.Helper()
	for {
		now := s.one(c, sql, args...)
		if now.Ready {
			return now
		}
		if now.Refused != nil {
			s.Fatalf("%s: %s", sql, *now.Refused)
		}
		time.Sleep(time.Millisecond)
	}
}

// begin begins a transaction under a pass. After an error it is over.
func (s *stage) begin(c *pgx.Conn, level pgx.TxIsoLevel, pass *string) (pgx.Tx, error) {
	tx, err := c.BeginTx(s.ctx, pgx.TxOptions{IsoLevel: level})
	if err != nil {
		return nil, err
	}
	if _, err = tx.Exec(s.ctx, "select ringfence.enter($1)", pass); err != nil {
		_ = tx.Rollback(s.ctx)
	}
	return tx, err
}

// writes writes in a transaction of its own under a pass.
func (s *stage) writes(c *pgx.Conn, pass *string) error {
	tx, err := s.begin(c, "", pass)
	if err == nil {
		_, err = tx.Exec(s.ctx, "insert into written (token) values ($1)", 1)
	}
	if err == nil {
		return tx.Commit(s.ctx)
	}
	if tx != nil {
		_ = tx.Rollback(s.ctx)
	}
	return err
}

// fails fails the test unless err has this SQLSTATE.
func (s *stage) fails(err error, code string) {
	s.Helper()
	if pg, ok := errors.AsType[*pgconn.PgError](err); !ok || pg.Code != code {
		s.Fatalf("got %v, want SQLSTATE %s", err, code)
	}
}
