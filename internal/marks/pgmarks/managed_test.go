package pgmarks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/fence"
	elections "github.com/ringfence/ringfence/fence/postgres"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// service is a managed service as its administrator sees it: what this role, no superuser, may
// grant, and what the service takes away from everybody. docs/managed.md has a row for each.
type service struct {
	mayGrant []string // has the admin option of these roles
	has      []string // is a member of these
	revoked  string   // run in the database as superuser
	warns    []string // what guard install warns of
}

var services = map[string]service{
	"rds":      {mayGrant: []string{"pg_read_all_stats", "pg_monitor", "pg_signal_backend"}},
	"aurora":   {mayGrant: []string{"pg_monitor", "pg_signal_backend"}, revoked: hideWAL},
	"neon":     {mayGrant: []string{"pg_monitor", "pg_signal_backend"}},
	"supabase": {mayGrant: []string{"pg_monitor", "pg_signal_backend"}, revoked: hideFiles},
	"cloudsql": {
		mayGrant: []string{"pg_monitor"}, revoked: hideFiles, warns: []string{"GRANT pg_signal_backend"},
	},
	"azure": {
		mayGrant: []string{"pg_read_all_stats"}, has: []string{"pg_monitor"}, warns: []string{"GRANT " +
			"pg_signal_backend"},
	},
	"nothing": {warns: []string{
		"serves nobody until it can", "GRANT pg_signal_backend", "owns the functions",
	}},
}

const hideFiles = "revoke execute on function pg_read_file(text), pg_ls_dir(text), " +
	"pg_hba_file_rules() from public"

const hideWAL = `revoke execute on function pg_current_wal_insert_lsn(), pg_walfile_name(pg_lsn),
    pg_control_system(), pg_control_checkpoint(), pg_last_xact_replay_timestamp() from public`

// managed sets a service up on plain Postgres: a database of its own, its administrator, the
// guard's role and a role of applications.
func managed(
	t *testing.T, pg *servers.Postgres, name string, s service,
) (d database, admin, guard, app string) {
	t.Helper()
	super := database{pg, "postgres"}
	d = database{pg, name}
	admin, guard, app = name+"_admin", name+"_guard", name+"_app"
	super.sql(t, fmt.Sprintf("create role %s login createdb; create role %s login; create role %s "+
		"login", admin, guard, app))
	for _, role := range s.mayGrant {
		super.sql(t, fmt.Sprintf("grant %s to %s with admin option", role, admin))
	}
	for _, role := range s.has {
		super.sql(t, fmt.Sprintf("grant %s to %s", role, admin))
	}
	if super.list(t,
		"select (current_setting('server_version_num')::integer >= 160000)::text")[0] == "true" {
		// before 16 it may grant any role: services patch that
		super.sql(t, "alter role "+admin+" createrole")
	}
	super.sql(t, fmt.Sprintf("create database %s owner %s", name, admin))
	if s.revoked != "" {
		d.sql(t, s.revoked)
	}
	execute(t, d.connect(t, admin), "create table entry (token bigint); grant all on entry to "+app)
	return d, admin, guard, app
}

func TestOnEachManagedServiceTheDatabaseFences(t *testing.T) {
	t.Parallel()
	pg := serverstest.Postgres(t, servers.PostgresOptions{})
	for name, s := range services {
		t.Run(name, func(t *testing.T) {
			d, admin, guard, app := managed(t, pg, name, s)
			warnings, err := Roles{Guard: guard, Leaders: []string{app}}.Install(t.Context(), d.url(admin))
			must.Succeed(t, err)
			all := strings.Join(warnings, "\n")
			for _, w := range s.warns {
				if !strings.Contains(all, w) {
					t.Errorf("the installation does not warn of %q: %q", w, all)
				}
			}
			if len(warnings) != len(s.warns) {
				t.Errorf("warnings: %q", warnings)
			}
			if err := elections.Install(t.Context(), d.url(admin), app); err != nil {
				t.Errorf("elections: %v", err)
			}
			electsOne(t, d.url(app))
			takesBySQL(t, d, app)
			store, err := Open(d.url(guard), Options{})
			must.Succeed(t, err)
			t.Cleanup(store.Close)
			if err := store.Probe(t.Context()); err != nil {
				var setup *fence.SetupError
				if name != "nothing" || !errors.As(err, &setup) ||
					!strings.Contains(err.Error(), "pg_monitor") {
					t.Fatal(err)
				}
				return // it cannot see sessions, and says so
			}
			fences(t, d, store, app, !slices.Contains(s.warns, "GRANT pg_signal_backend"))
		})
	}
}

// electsOne wins an election as the role of an application.
func electsOne(t *testing.T, url string) {
	t.Helper()
	c, err := elections.Open(t.Context(), url, elections.Options{})
	must.Succeed(t, err)
	defer c.Close()
	lead := fence.Lead{Elector: c, Resource: "orders", Holder: "host"}
	won := false
	err = lead.Run(t.Context(), func(context.Context, *fence.Term) error {
		won = true
		return nil
	})
	if err != nil || !won {
		t.Errorf("the election: %t, %v", won, err)
	}
}

// takesBySQL takes a token by SQL alone while a transaction is inside under an older one. A role
// may end its own backends, and who is inside shows in the locks, which everybody may see.
func takesBySQL(t *testing.T, d database, app string) {
	t.Helper()
	take := func(holder string) (pass string) {
		t.Helper()
		conn := d.connect(t, app)
		for ready, tries := false, 0; !ready; tries++ {
			if tries == 1000 {
				t.Fatal("the term does not begin")
			}
			err := conn.QueryRow(t.Context(), "select pass, ready from ringfence.take('by_sql', $1)",
				holder).Scan(&pass, &ready)
			must.Succeed(t, err)
		}
		return pass
	}
	enter := func(pass string) (pgx.Tx, error) {
		tx, err := d.connect(t, app).Begin(t.Context())
		must.Succeed(t, err)
		_, err = tx.Exec(t.Context(), "select ringfence.enter($1)", pass)
		return tx, err
	}
	old := take("a")
	inside, err := enter(old)
	must.Succeed(t, err)
	newer := take("b")
	if inside.Commit(t.Context()) == nil {
		t.Error("the older transaction has committed")
	}
	_, err = enter(old)
	if pg, ok := errors.AsType[*pgconn.PgError](err); !ok || pg.Code != "RF001" {
		t.Errorf("the older holder: %v", err)
	}
	tx, err := enter(newer)
	must.Succeed(t, err)
	must.Report(t, tx.Commit(t.Context()))
}

// fences raises the mark twice, with a session and a transaction under the first token. signals
// means that the guard may end sessions of other roles.
func fences(t *testing.T, d database, s *Store, app string, signals bool) {
	t.Helper()
	old, newer := claimed(5), claimed(7)
	must.Succeed(t, takeOver(t.Context(), s, old))
	session := d.connect(t, app)
	if attached, err := Attach(t.Context(), session, old); err != nil || !attached {
		t.Errorf("attach: %t, %v", attached, err)
	}
	inside := d.connect(t, app)
	tx, err := Begin(t.Context(), inside, old, pgx.TxOptions{})
	must.Succeed(t, err)
	defer tx.Rollback(context.WithoutCancel(t.Context()))

	err = takeOver(t.Context(), s, newer)
	if !signals {
		var refused *fence.Refusal
		if !errors.As(err, &refused) || refused.Reason != fence.ErrUnrevoked ||
			!strings.Contains(refused.Detail, "pg_signal_backend") ||
			!strings.Contains(refused.Detail, app) {
			t.Fatalf("a take-over that may end nobody: %v", err)
		}
		if _, err := Begin(t.Context(), d.connect(t, app), newer, pgx.TxOptions{}); !errors.Is(err,
			fence.ErrNotRaised) {
			t.Errorf("the newer leader enters beside the older one: %v", err)
		}
		d.sql(t, fmt.Sprintf("grant %s to %s", app, s.cfg.User))
		err = takeOver(t.Context(), s, newer)
	}
	must.Succeed(t, err)
	if session.Ping(t.Context()) == nil || inside.Ping(t.Context()) == nil {
		t.Error("an older session is alive after the take-over")
	}
	if _, err := Begin(t.Context(), d.connect(t, app), old, pgx.TxOptions{}); !errors.Is(err,
		fence.ErrStale) {
		t.Errorf("the older leader: %v", err)
	}
	if tx, err = Begin(t.Context(), d.connect(t, app), newer, pgx.TxOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "insert into entry values (7)"); err != nil {
		t.Error(err)
	}
	must.Report(t, tx.Commit(t.Context()))
}

// A role without pg_signal_backend ends sessions of its own role, as any role may.
func TestAGuardWithoutPgSignalBackendEndsSessionsOfItsOwnRole(t *testing.T) {
	t.Parallel()
	pg := serverstest.Postgres(t, servers.PostgresOptions{})
	d, admin, guard, _ := managed(t, pg, "own", services["cloudsql"])
	must.Succeed(t, Install(t.Context(), d.url(admin), guard))
	d.sql(t, "grant all on entry to "+guard)
	store, err := Open(d.url(guard), Options{})
	must.Succeed(t, err)
	t.Cleanup(store.Close)
	fences(t, d, store, guard, true)
}

// Where the server hides system identifier and timeline, a number in the database stands for them.
// It cannot tell a crash from a promotion.
func TestWhereTheTimelineIsHiddenACrashCountsAsAPromotion(t *testing.T) {
	t.Parallel()
	r, _ := own(t)
	r.s.Close()
	r.sql(t, "drop schema ringfence, ringfence_private, ringfence_installed cascade")
	r.sql(t, hideWAL+"; create role owner login; grant create on database postgres to owner; "+
		"grant pg_monitor, pg_signal_backend to owner with admin option; grant owner to app")
	must.Succeed(t, Install(t.Context(), r.url("owner"), guardRole, "app"))
	must.Succeed(t, elections.Install(t.Context(), r.url("owner")))
	timeline := func() string {
		t.Helper()
		return r.list(t, "select ringfence.begin_call()::text")[0]
	}
	r.s = r.open(t, Options{})
	c := r.lead(t, claimed(5))
	first := timeline()
	for name, step := range map[string]struct {
		restart   func() error
		continued bool
	}{
		"clean restart": {r.pg.Stop, true},
		"crash":         {r.pg.Kill, false},
	} {
		before := timeline()
		must.Succeed(t, step.restart())
		must.Succeed(t, r.pg.Start(t.Context()))
		r.outside(t, c, fence.ErrNotRaised)
		_, err := r.opens(t, marks.Unverified{Name: "zk:a"}, c)
		if (err == nil) != step.continued {
			t.Errorf("%s: without a coordinator: %v", name, err)
		}
		if _, err := r.opens(t, leader(5), c); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if now := timeline(); (now == before) != step.continued {
			t.Errorf("%s: the timeline was %s and is %s", name, before, now)
		}
		r.enters(t, c, pgx.TxOptions{})
	}
	if last := timeline(); last <= first {
		t.Errorf("the timeline was %s, and is %s after a crash", first, last)
	}
	// A dump that is restored brings back a copy: it names no data that was here before.
	r.sql(t, "create table kept as table ringfence_private.identity; delete from "+
		"ringfence_private.identity; insert into ringfence_private.identity table kept")
	found, err := r.s.Marks(t.Context())
	if err != nil || found[0].Continued {
		t.Errorf("marks under a copied identity: %+v, %v", found, err)
	}
}
