package pgjournal_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/checkpointtest"
	"github.com/ringfence/ringfence/checkpoint/pgjournal"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/internal/marks/pgmarks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/pgtest"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// patience bounds each test, so that a test that hangs says where.
const patience = time.Minute

func TestMain(m *testing.M) { os.Exit(serverstest.RunMain(m)) }

// database is a fresh database with the schema, installed for a guard's role and for the leaders'
// role app.
type database struct {
	pg   *servers.Postgres
	name string
}

func installed(t testing.TB) database {
	t.Helper()
	return installedOn(t, serverstest.SharedPostgres(t))
}

func installedOn(t testing.TB, pg *servers.Postgres) database {
	t.Helper()
	d := database{pg, serverstest.FreshDatabase(t, pg)}
	pgtest.Role(t, d.url("postgres"), "guard_role", "login")
	pgtest.Role(t, d.url("postgres"), "app", "login")
	d.exec(t, `create table effect (place bigserial primary key, value text not null, token bigint);
	  grant all on all tables in schema public to app;
	  grant all on all sequences in schema public to app`)
	must.Succeed(t, pgmarks.Install(t.Context(), d.url("postgres"), "guard_role", "app"))
	return d
}

func (d database) url(role string) string { return d.pg.URL(role, d.name) }

func (d database) exec(t testing.TB, sql string) {
	t.Helper()
	pgtest.Exec(t, d.url("postgres"), sql)
}

// list reads one column of text.
func (d database) list(t testing.TB, sql string) []string {
	t.Helper()
	return pgtest.Column[string](t, d.url("postgres"), sql)
}

// journal makes the journal of one process. Its pool has the leaders' role; it raises with the
// guard's role.
func (d database) journal(t testing.TB, o pgjournal.Options) *pgjournal.Journal {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), d.url("app"))
	must.Succeed(t, err)
	t.Cleanup(pool.Close)
	if o.Raiser == nil {
		o.Raiser = pgmarks.NewRaiser(d.url("guard_role"))
	}
	j := pgjournal.New(pool, o)
	t.Cleanup(j.Close)
	return j
}

func (d database) fixture(t *testing.T, o pgjournal.Options) checkpointtest.Fixture {
	o.Limit = 4 << 20
	j := d.journal(t, o)
	var token atomic.Int64
	token.Store(1 << 60)
	return checkpointtest.Fixture{
		Journal: j, Second: d.journal(t, o), Limit: o.Limit,
		Lead: func(t testing.TB, r fence.Resource) fence.Claim {
			t.Helper()
			c := fence.Claim{Resource: r, Token: fence.Token(token.Add(1)),
				Issuer: elector.Unverified, Holder: fmt.Sprintf("leader-%d", token.Load())}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if err := j.Raise(ctx, c); err != nil {
				t.Fatalf("raise: %v", err)
			}
			return c
		},
	}
}

func TestPostgresKeepsTheContract(t *testing.T) {
	checkpointtest.Run(t, func(t *testing.T) checkpointtest.Fixture {
		return installed(t).fixture(t, pgjournal.Options{})
	})
}

func TestPostgresKeepsTheContractOfSynchronousSteps(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]pgjournal.Options{
		// Shared, because an attached connection of a deposed leader is dead and cannot return
		// ErrStale; attach_test.go tests that.
		"read committed": {Shared: true},
		"serializable":   {Shared: true, Transaction: pgx.TxOptions{IsoLevel: pgx.Serializable}},
	} {
		t.Run(name, func(t *testing.T) {
			checkpointtest.RunTransactor(t, func(t *testing.T) checkpointtest.TransactorFixture[pgx.Tx] {
				d := installed(t)
				return checkpointtest.TransactorFixture[pgx.Tx]{
					Fixture: d.fixture(t, o),
					Effect: func(ctx context.Context, tx pgx.Tx, value string) error {
						_, err := tx.Exec(ctx, "insert into effect (value) values ($1)", value)
						return err
					},
					Effects: func(t testing.TB) []string {
						return d.list(t, "select value from effect order by place")
					},
				}
			})
		})
	}
}

// The functions are of an installation before there was Forget.
func TestForgetOnAnOlderInstallationSaysWhatToDo(t *testing.T) {
	t.Parallel()
	d := installed(t)
	f := d.fixture(t, pgjournal.Options{})
	c := f.Lead(t, "orders")
	d.exec(t, "drop function ringfence.enter_and_forget(text, bigint, text, text, text)")
	err := f.Journal.Forget(t.Context(), c, "nightly")
	r, refused := errors.AsType[*fence.Refusal](err)
	if !refused || !errors.Is(err, fence.ErrNotInstalled) || errors.Is(err, checkpoint.ErrUnknown) ||
		!strings.Contains(r.Hint, "guard install") {
		t.Errorf("got %v", err)
	}
}
