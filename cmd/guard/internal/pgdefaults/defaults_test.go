// Package pgdefaults tests what depends on no default of a database: each setting that a user or a
// superuser may change has its oddest value.
package pgdefaults

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/pgjournal"
	"github.com/ringfence/ringfence/cmd/guard/internal/seal"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/fence/postgres"
	"github.com/ringfence/ringfence/internal/marks/pgmarks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
	"github.com/ringfence/ringfence/store/pgstore"
)

func TestMain(m *testing.M) { os.Exit(serverstest.RunMain(m)) }

// left are settings that this test leaves as they are.
var left = []string{
	"transaction_isolation", "transaction_read_only", "transaction_deferrable", // of one transaction
	"exit_on_error",            // every error ends the session
	"session_replication_role", // refused: see fence/postgres
	"ignore_system_indexes", "allow_system_table_mods",
	// only more log
	"trace_sort", "trace_notify", "trace_recovery_messages", "log_min_messages",
	"log_min_error_statement",
}

// strings have text as values, of which there is no list.
var texts = map[string]string{
	"DateStyle": "SQL, DMY", "TimeZone": "Asia/Kathmandu", "client_encoding": "LATIN1",
	"search_path":          "nowhere",
	"plpgsql.extra_errors": "all", "plpgsql.variable_conflict": "use_column", "lc_numeric": "C.utf8",
}

// values lists what a setting can be in a database, and is not now.
const values = `select name, case vartype
       when 'bool' then array[case setting when 'on' then 'off' else 'on' end]
       when 'enum' then array(select v from unnest(enumvals) v where v <> setting)
       else array[min_val, max_val] end
  from pg_settings where context in ('user', 'superuser') and vartype <> 'string' and not name = any ($1) and name not like 'log\_%stats'
   and name not like 'debug\_p%' order by name`

// set changes every setting of a database for later sessions. It returns how many it has changed.
func set(t *testing.T, pg *servers.Postgres, database string, round int) (changed int) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), pg.URL("postgres", "postgres"))
	must.Succeed(t, err)
	defer c.Close(context.WithoutCancel(t.Context()))
	rows, err := c.Query(t.Context(), values, left)
	must.Succeed(t, err)
	all := map[string][]string{}
	var name string
	var found []string
	if _, err = pgx.ForEachRow(rows, []any{&name, &found}, func() error {
		all[name] = slices.Clone(found)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for name, value := range texts {
		all[name] = []string{value}
	}
	for name, values := range all {
		if len(values) == 0 {
			continue
		}
		_, err := c.Exec(t.Context(),
			fmt.Sprintf("alter database %s set %s = '%s'", database, name, values[round%len(values)]))
		if err == nil { // some are limited by the machine or by other settings
			changed++
		}
	}
	return changed
}

func TestNoDefaultOfADatabaseChangesWhatWeDo(t *testing.T) {
	pg := serverstest.Postgres(t, servers.PostgresOptions{})
	for round := range 3 {
		database := serverstest.FreshDatabase(t, pg)
		if changed := set(t, pg, database, round); changed < 100 {
			t.Errorf("only %d settings were changed", changed)
		}
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			works(t, func(role string) string { return pg.URL(role, database) })
		})
	}
}

// works elects a leader, and does what it does, with every part of ours that connects to Postgres.
func works(t *testing.T, url func(role string) string) {
	admin, guard, app := url("postgres"), url("guard"), url("app")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	must := func(err error) {
		t.Helper()
		must.Succeed(t, err)
	}
	conn, err := pgmarks.Connect(ctx, admin)
	must(err)
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, `begin read write; do $$ begin create role guard login; create role app login; exception when duplicate_object then null; end $$;
	    create table public.entry (n int); commit`)
	must(err)
	_, err = pgmarks.Roles{Guard: "guard", Leaders: []string{"app"}}.Install(ctx, admin)
	must(err)

	c, err := postgres.Open(ctx, app, postgres.Options{})
	must(err)
	defer c.Close()
	term, err := c.Campaign(ctx, "orders", "büro-1")
	must(err)
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	_, err = c.Documents().Change(ctx, documents.Change{
		While: []fence.Claim{term.Claim()}, Writes: []documents.Write{documents.Create("a/b", every)},
	})
	must(err)
	read, err := c.Documents().Get(ctx, documents.At("a/b"))
	must(err)
	if !bytes.Equal(read[0].Data, every) {
		t.Errorf("the document is %x", read[0].Data)
	}

	raiser := pgstore.NewRaiser(app, c)
	defer raiser.Close()
	must(raiser.Raise(ctx, term.Claim()))
	s, err := pgmarks.Open(guard, pgmarks.Options{})
	must(err)
	defer s.Close()
	found, err := s.Marks(ctx)
	must(err)
	if len(found) != 1 || found[0].Holder != "büro-1" ||
		time.Since(found[0].Raised).Abs() > time.Hour || !found[0].Confirmed {
		t.Errorf("the marks are %+v", found)
	}
	publishes(t, app, term.Claim())

	authorizer, err := pgmarks.OpenAuthorizer(ctx, admin)
	must(err)
	defer authorizer.Close()
	must(authorizer.Allow(ctx, "app", "orders"))
	must(authorizer.Authorize(ctx, true))
	plan, err := seal.Protect(ctx, conn, seal.Request{Resource: "orders", Tables: []string{"entry"}})
	must(err)
	must(plan.Run(ctx, conn))
	_, err = seal.Check(ctx, conn, "guard")
	must(err)
	must(term.Resign(ctx))
}

// publishes writes and reads a checkpoint. The role of a pool that is not ours has to be able to
// write.
func publishes(t *testing.T, url string, c fence.Claim) {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url+"&default_transaction_read_only=off")
	must.Succeed(t, err)
	defer pool.Close()
	j := pgjournal.New(pool, pgjournal.Options{})
	defer j.Close()
	cp := checkpoint.Checkpoint{Task: "task", Resource: c.Resource, Version: 1, Token: c.Token,
		Issuer: c.Issuer,
		Holder: c.Holder, State: []byte(`"büro 😀"`), Steps: []string{"ж"}}
	must.Succeed(t, j.Publish(t.Context(), c, cp))
	got, _, err := j.TakeOver(t.Context(), c, "task", 0)
	if err != nil || got.Holder != c.Holder || got.Steps[0] != "ж" {
		t.Errorf("%+v, %v", got, err)
	}
}
