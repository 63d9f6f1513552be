package pgstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/fencetest"
	"github.com/ringfence/ringfence/internal/guard/guardtest"
	"github.com/ringfence/ringfence/internal/guard/pgguard"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/marks/pgmarks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/pgtest"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
	"github.com/ringfence/ringfence/store/pgstore"
)

// soon bounds what takes no time on a machine that does not stall.
const soon = time.Minute

// stage is a database with the schema, a table that app may write, and elections.
type stage struct {
	t         *testing.T
	server    *servers.Postgres
	database  string
	elections *fencetest.Client
}

func newStage(t *testing.T) *stage { t.Helper(); return stageOn(t, serverstest.SharedPostgres(t)) }

func stageOn(t *testing.T, pg *servers.Postgres) *stage {
	t.Helper()
	s := &stage{t: t, server: pg, elections: fencetest.NewMemory(soon).Open()}
	s.database = serverstest.FreshDatabase(t, s.server)
	t.Cleanup(func() { _ = s.elections.Close() })
	for _, role := range []string{"app", "guard_role"} {
		pgtest.Role(t, s.admin(), role, "login")
	}
	s.sql("create table ledger (token bigint); grant all on ledger to app")
	err := pgmarks.Install(t.Context(), s.admin(), "guard_role")
	must.Succeed(t, err)
	s.sql(`create table raised (token bigint);
		create function note() returns trigger language plpgsql security definer as $$ begin
			insert into public.raised values (new.token); return null; end $$;
		create trigger note after insert or update on ringfence_private.mark
			for each row execute function note()`)
	return s
}

func (s *stage) direct() string { return s.server.URL("app", s.database) }
func (s *stage) admin() string  { return s.server.URL("postgres", s.database) }

// guard starts a guard, and returns the URL of the database behind it.
func (s *stage) guard() string {
	s.t.Helper()
	store, err := pgmarks.Open(s.server.URL("guard_role", s.database), pgmarks.Options{})
	must.Succeed(s.t, err)
	s.t.Cleanup(store.Close)
	a := &marks.Admission{Store: store, Authority: marks.Unverified{}, Timeout: soon}
	at := guardtest.Serve(s.t, pgguard.New(pgguard.Options{Store: store, Admission: a}))
	return "postgres://app@" + at + "/" + s.database + "?sslmode=disable"
}

func (s *stage) sql(text string) {
	s.t.Helper()
	pgtest.Exec(s.t, s.admin(), text)
}

// rows returns how many rows the ledger has.
func (s *stage) rows() (n int) {
	s.t.Helper()
	return pgtest.Value[int](s.t, s.admin(), "select count(*) from ledger")
}

// raised returns how often a mark was raised to a new token.
func (s *stage) raised() (n int) {
	s.t.Helper()
	return pgtest.Value[int](s.t, s.admin(), "select count(distinct token) from raised")
}

const writeOne = "insert into ledger values (1)"

func TestLeadOpensAPoolForEachTermUntilTheWorkIsDone(t *testing.T) {
	s := newStage(t)
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	var pools []*pgxpool.Pool
	lead := fence.Lead{Elector: s.elections, Resource: "orders", Holder: "one"}
	err := pgstore.Lead(ctx, lead, s.guard(), func(ctx context.Context, pool *pgxpool.Pool) error {
		pools = append(pools, pool)
		if n := s.raised(); n != len(pools) { // before anybody has used the pool
			t.Errorf("in term %d of the work %d marks have been raised", len(pools), n)
		}
		if _, err := pool.Exec(ctx, writeOne); err != nil || len(pools) == 2 {
			return err
		}
		var token int64
		err := pool.QueryRow(ctx, "select current_setting('fence.orders')::bigint").Scan(&token)
		if err != nil {
			return err
		}
		if _, err := s.elections.Depose(ctx, "orders", fence.Token(token)); err != nil {
			return err
		}
		<-ctx.Done()
		_, err = pool.Exec(context.WithoutCancel(ctx), writeOne)
		if !errors.Is(err, fence.ErrLost) {
			t.Errorf("after the term: %v", err)
		}
		return err
	})
	if err != nil || len(pools) != 2 || pools[0] == pools[1] || s.rows() != 2 {
		t.Errorf("%d terms, %d rows: %v", len(pools), s.rows(), err)
	}
	if err := pools[1].Ping(ctx); err == nil {
		t.Error("the last pool is open")
	}
}

// In each of these the address is not a guard's.
func TestNothingIsWrittenThroughAPoolWithoutAGuard(t *testing.T) {
	s := newStage(t)
	bare := serverstest.FreshDatabase(t, s.server)
	leads, err := s.elections.Campaign(t.Context(), "orders", "one")
	must.Succeed(t, err)
	for name, url := range map[string]string{
		"the database itself": s.direct(), "a database without the schema": s.server.URL("app", bare),
	} {
		t.Run(name, func(t *testing.T) {
			cfg, err := pgstore.ParseConfig(url)
			must.Succeed(t, err)
			pool, err := pgstore.NewPool(t.Context(), leads, cfg)
			must.Succeed(t, err)
			defer pool.Close()
			_, err = pool.Exec(t.Context(), writeOne)
			if setup, ok := errors.AsType[*fence.SetupError](err); !ok || setup.Hint == "" {
				t.Errorf("%v", err)
			}
		})
	}
	t.Run("under another token", func(t *testing.T) {
		cfg, err := pgstore.ParseConfig(s.guard())
		must.Succeed(t, err)
		// A pooler that drops the options, such as PgBouncer with ignore_startup_parameters.
		cfg.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
			c.RuntimeParams["options"] = "-c fence.other=5"
			return nil
		}
		pool, err := pgstore.NewPool(t.Context(), leads, cfg)
		must.Succeed(t, err)
		defer pool.Close()
		if _, err := pool.Exec(t.Context(), writeOne); err == nil {
			t.Error("written under another claim")
		}
	})
	if n := s.rows(); n != 0 {
		t.Errorf("%d rows", n)
	}
	lead := fence.Lead{Elector: s.elections, Resource: "other", Holder: "one"}
	err = pgstore.Lead(t.Context(), lead, s.direct(),
		func(context.Context, *pgxpool.Pool) error { t.Error("works"); return nil })
	if _, ok := errors.AsType[*fence.SetupError](err); !ok {
		t.Errorf("Lead: %v", err)
	}
}
