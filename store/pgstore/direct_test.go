package pgstore_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks/pgmarks"
	"github.com/ringfence/ringfence/internal/test/electiontest"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/pgtest"
	"github.com/ringfence/ringfence/internal/test/poll"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
	"github.com/ringfence/ringfence/store/pgstore"
)

// fenceDirectly lets the database itself admit app's connections, and returns the raiser of a role
// that may lead.
func (s *stage) fenceDirectly() *pgstore.Raiser {
	s.t.Helper()
	if !pgtest.HasLoginTriggers(s.t, s.admin()) {
		s.t.Skip("login triggers need Postgres 17: make test-newer")
	}
	pgtest.Role(s.t, s.admin(), "elector", "login")
	must.Succeed(s.t, pgmarks.Install(s.t.Context(), s.admin(), "guard_role", "elector"))
	s.sql("select ringfence.direct('{app}')")
	raiser := pgstore.NewRaiser(s.server.URL("elector", s.database), s.elections)
	s.t.Cleanup(raiser.Close)
	return raiser
}

func TestAPoolOfDirectSessionsEndsWithTheTerm(t *testing.T) {
	s := newStage(t)
	raiser := s.fenceDirectly()
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

// The mark of a term does not count after a restart until it is raised again.
func TestAPoolOfDirectSessionsRaisesTheMarkAfterARestart(t *testing.T) {
	s := stageOn(t, serverstest.Postgres(t, servers.PostgresOptions{}))
	raiser := s.fenceDirectly()
	term := electiontest.Win(t, s.elections, "orders", "one")
	must.Succeed(t, raiser.Raise(t.Context(), term.Claim()))
	cfg, err := pgstore.ParseConfig(s.direct())
	must.Succeed(t, err)
	pool, err := pgstore.NewPool(t.Context(), term, cfg, raiser)
	must.Succeed(t, err)
	defer pool.Close()
	_, err = pool.Exec(t.Context(), writeOne)
	must.Succeed(t, err)

	must.Succeed(t, s.server.Kill())
	must.Succeed(t, s.server.Start(t.Context()))
	refusals := 0
	if !poll.Until(soon, func() bool {
		_, err := pool.Exec(t.Context(), writeOne)
		if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.Code == "RF012" {
			refusals++
		}
		return err == nil
	}) || refusals == 0 {
		t.Errorf("after the restart the pool was refused %d times, %d rows", refusals, s.rows())
	}
}
