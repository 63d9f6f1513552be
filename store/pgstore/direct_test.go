package pgstore_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks/pgmarks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/pgtest"
	"github.com/ringfence/ringfence/store/pgstore"
)

// The database itself admits the pool's connections. A role that may lead raises the mark.
func TestAPoolOfDirectSessionsEndsWithTheTerm(t *testing.T) {
	s := newStage(t)
	if !pgtest.HasLoginTriggers(t, s.admin()) {
		t.Skip("login triggers need Postgres 17: make test-newer")
	}
	pgtest.Role(t, s.admin(), "elector", "login")
	must.Succeed(t, pgmarks.Install(t.Context(), s.admin(), "guard_role", "elector"))
	s.sql("select ringfence.direct('{app}')")
	raiser := pgstore.NewRaiser(s.server.URL("elector", s.database), s.elections)
	defer raiser.Close()
	lead := fence.Lead{
		Elector: s.elections, Resource: "orders", Holder: "one", Stores: []fence.Raiser{raiser},
	}
	var older *pgxpool.Pool
	terms := 0
	err := lead.Repeat(t.Context(), func(ctx context.Context, term *fence.Term) error {
		cfg, err := pgstore.ParseConfig(s.direct())
		must.Succeed(t, err)
		pool, err := pgstore.NewPool(ctx, term, cfg)
		must.Succeed(t, err)
		t.Cleanup(pool.Close)
		if _, err := pool.Exec(ctx, writeOne); err != nil {
			return err
		}
		if terms++; terms == 1 {
			older = pool
			_, err := s.elections.Depose(ctx, "orders", term.Token())
			<-ctx.Done()
			return err
		}
		_, err = older.Exec(t.Context(), writeOne)
		if err == nil || s.rows() != 2 {
			t.Errorf("under the earlier term: %v, %d rows", err, s.rows())
		}
		return nil
	})
	must.Succeed(t, err)
	if terms != 2 {
		t.Errorf("%d terms", terms)
	}
}
