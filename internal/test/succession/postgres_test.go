package succession

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/pgjournal"
	"github.com/ringfence/ringfence/internal/marks/pgmarks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/pgtest"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// openPostgres opens a journal with alternating steps of both kinds. The asynchronous ones write to
// a table over a separate connection, without the fence.
func openPostgres(ctx context.Context, e job) (*opened, error) {
	cfg, err := pgxpool.ParseConfig(e.URL)
	if err != nil {
		return nil, err
	}
	cfg.ConnConfig.DialFunc = e.Ending.dial
	cfg.MaxConns = 1 // so that only the first use prepares statements
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	world, err := pgx.Connect(ctx, e.URL)
	if err != nil {
		return nil, err
	}
	j := pgjournal.New(pool, pgjournal.Options{
		Raiser: pgmarks.NewRaiser(e.Raise), Shared: e.Journal == "postgres, shared",
	})
	o := &opened{
		journal: watchedTransactor{watched{j, e.Ending}, j},
		term:    forAnHour(e),
		close:   func() { j.Close(); pool.Close(); _ = world.Close(ctx) },
	}
	outside := func(ctx context.Context, key checkpoint.Key) error {
		_, err := world.Exec(ctx, "insert into world (key, token) values ($1, $2)", key.String(),
			int64(e.Token))
		return err
	}
	o.steps = []checkpoint.Step[tally]{
		book("book", e), asynchronous("mail", e.Ending, outside), book("close", e),
		asynchronous("report", e.Ending, outside),
	}
	return o, nil
}

// book is a synchronous step.
func book(name string, e job) checkpoint.Step[tally] {
	return pgjournal.Step(name, func(ctx context.Context, tx pgx.Tx, t tally) (tally, error) {
		e.Ending.reach(beforeEffect)
		t.Steps++
		_, err := tx.Exec(ctx, "insert into ledger (steps, step, token) values ($1, $2, $3)", t.Steps,
			name, int64(e.Token))
		e.Ending.reach(afterEffect)
		return t, err
	})
}

// sharedPostgresWorld has journals that check each transaction, instead of attached sessions.
func sharedPostgresWorld(t *testing.T) *world {
	w := postgresWorld(t)
	w.kind = "postgres, shared"
	return w
}

// postgresWorld creates a database for one run.
func postgresWorld(t *testing.T) *world {
	pg := serverstest.SharedPostgres(t)
	d := serverstest.FreshDatabase(t, pg)
	w := &world{
		t: t, kind: "postgres", url: pg.URL("succession_app", d), raise: pg.URL("succession_guard", d),
	}
	conn := w.connect(pg, d)
	for _, role := range []string{"succession_guard", "succession_app"} {
		pgtest.Role(t, pg.URL("postgres", d), role, "login")
	}
	w.exec(conn, `create table ledger (place bigserial, steps int, step text, token bigint);
	  create table world (place bigserial, key text, token bigint);
	  grant all on all tables in schema public to succession_app;
	  grant all on all sequences in schema public to succession_app`)
	err := pgmarks.Install(t.Context(), pg.URL("postgres", d), "succession_guard", "succession_app")
	must.Succeed(t, err)
	pool, err := pgxpool.New(t.Context(), pg.URL("postgres", d))
	must.Succeed(t, err)
	t.Cleanup(pool.Close)
	j := pgjournal.New(pool, pgjournal.Options{})
	t.Cleanup(j.Close)
	w.journal = j
	w.unfence = func() {
		w.exec(conn, `create or replace function
		    ringfence.enter(resource text, token bigint, issuer text, candidate text default '') returns void
		    language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$ begin
		    perform set_config('ringfence.' || resource,
		      'entered ' || token || ' ' || issuer, true); end $$;
		  create or replace function
		    ringfence.attach(pid bigint, resource text, token bigint, issuer text, candidate text default '') returns boolean
		    language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$ begin
		    perform set_config('ringfence_session.' || resource, token || ' ' || issuer, false);
		    return true; end $$`)
	}
	w.exactlyOnce = func() []string {
		return w.list(conn, "select step || ' ' || steps from ledger order by place")
	}
	w.outside = func() []string { return w.list(conn, "select key from world order by place") }
	return w
}

func (w *world) connect(pg *servers.Postgres, database string) *pgx.Conn {
	w.t.Helper()
	conn, err := pgx.Connect(w.t.Context(), pg.URL("postgres", database))
	must.Succeed(w.t, err)
	w.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = conn.Close(ctx)
	})
	return conn
}

func (w *world) exec(conn *pgx.Conn, sql string) {
	w.t.Helper()
	_, err := conn.PgConn().Exec(w.t.Context(), sql).ReadAll()
	must.Succeed(w.t, err)
}

func (w *world) list(conn *pgx.Conn, sql string) []string {
	w.t.Helper()
	rows, err := conn.Query(w.t.Context(), sql)
	must.Succeed(w.t, err)
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	must.Succeed(w.t, err)
	return found
}
