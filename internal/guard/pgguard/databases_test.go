package pgguard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/guard/guardtest"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/marks/pgmarks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/pgtest"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// several is a guard of a server with several databases.
type several struct {
	*guarded
	p      *Protocol
	opened atomic.Int32 // how often another database was opened
}

// serveSeveral starts a guard whose home database is a fresh one of the shared server.
func serveSeveral(t *testing.T, o Options) *several {
	t.Helper()
	pg := serverstest.SharedPostgres(t)
	home := prepared(t, pg, serverstest.FreshDatabase(t, pg))
	s := &several{guarded: &guarded{t: t, pg: pg, database: home}}
	s.Guard = guardtest.Start(t, guardtest.Options{Drain: time.Second},
		func(log *slog.Logger, m *guard.Metrics) guard.Protocol {
			o.Audit = guard.NewAudit(log, m, "postgres")
			t.Cleanup(o.Audit.Close)
			open := func(name string) (*Database, error) {
				a := &marks.Admission{Authority: marks.Unverified{}, Notify: o.Audit.In(name)}
				store, err := pgmarks.Open(pgmarks.ForDatabase(pg.URL("guard_role", home), name),
					pgmarks.Options{Replaced: a.Forget})
				a.Store = store
				return &Database{Store: store, Admission: a}, err
			}
			first, err := open(home)
			must.Succeed(t, err)
			o.Store, o.Admission = first.Store, first.Admission
			o.Another = func(name string) (*Database, error) {
				s.opened.Add(1)
				return open(name)
			}
			s.p = New(o)
			return s.p
		})
	return s
}

// fresh creates another database with the schema.
func (s *several) fresh() (database string) {
	s.t.Helper()
	return prepared(s.t, s.pg, serverstest.FreshDatabase(s.t, s.pg))
}

// in connects to a database under a token of orders.
func (s *several) in(database string, token int) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), time.Minute)
	defer cancel()
	c, err := pgx.Connect(ctx, fmt.Sprintf(
		"postgres://app@%s/%s?sslmode=disable&options=-c%%20fence.orders%%3D%d", s.Addr, database, token))
	if err == nil {
		s.t.Cleanup(func() { _ = c.Close(context.Background()) })
	}
	return c, err
}

func (s *several) mustBeIn(database string, token int) *pgx.Conn {
	s.t.Helper()
	c, err := s.in(database, token)
	if err != nil {
		s.t.Fatalf("database %s, token %d: %v", database, token, err)
	}
	return c
}

// connections returns how many connections the guard itself has to a database.
func (s *several) connections(database string) int {
	return s.count(connections(database))
}

// connections is the query for the number of the guard's connections to a database.
func connections(database string) string {
	return fmt.Sprintf("select count(*) from pg_stat_activity where datname = '%s' and "+
		"usename = 'guard_role'", database)
}

// awaitClosed waits until the guard has no connection to a database.
func (s *several) awaitClosed(database string) {
	s.t.Helper()
	s.until(connections(database), 0)
}

// disconnect ends all connections to a database and lets nobody in until allow.
func (s *several) disconnect(database string) (allow func(name string)) {
	s.t.Helper()
	admin := s.pg.URL("postgres", "postgres")
	pgtest.Exec(s.t, admin, fmt.Sprintf("alter database %s allow_connections false", database))
	pgtest.Exec(s.t, admin, servers.EndSessions("datname = '"+database+"'"))
	return func(name string) {
		pgtest.Exec(s.t, admin, fmt.Sprintf("alter database %s allow_connections true", name))
	}
}

func TestEachDatabaseHasAMarkOfItsOwn(t *testing.T) {
	t.Parallel()
	s := serveSeveral(t, Options{})
	shop, crm := s.database, s.fresh()
	old := s.mustBeIn(shop, 5)
	other := s.mustBeIn(crm, 9)
	_, err := other.Exec(t.Context(), "begin; insert into ledger (token) values (9)")
	must.Succeed(t, err)
	s.mustBeIn(shop, 7) // a take-over in shop, under a token that is stale in crm
	if err := old.Ping(t.Context()); err == nil {
		t.Error("the older session in the same database is still open")
	}
	if _, err := other.Exec(t.Context(), "commit"); err != nil {
		t.Errorf("a take-over in one database has ended a session of another: %v", err)
	}
	for database, stale := range map[string]int{shop: 6, crm: 8} {
		_, err := s.in(database, stale)
		refusedWith(t, err, "RF001")
	}
	for database, want := range map[string]float64{shop: 1, crm: 0} {
		if n := s.Metric("ringfence_revoked_sessions_total", database); n != want {
			t.Errorf("%v sessions were revoked in %s, want %v", n, database, want)
		}
	}
	for database, want := range map[string]int{shop: 7, crm: 9} {
		url := s.pg.URL("postgres", database)
		if n := pgtest.Value[int](t, url, "select token from ringfence_private.mark"); n != want {
			t.Errorf("the mark in %s is %d, want %d", database, n, want)
		}
		if n := pgtest.Value[int](t, url, "select count(*) from ringfence_private.session"); n != 1 {
			t.Errorf("%d sessions are recorded in %s, want 1", n, database)
		}
	}
}

// A model says who is admitted: whoever is not below the mark of the database.
func TestAStaleTokenIsRefusedInEachDatabase(t *testing.T) {
	t.Parallel()
	s := serveSeveral(t, Options{})
	databases := []string{s.database, s.fresh(), s.fresh()}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	highest := map[string]int{}
	for range 90 {
		database, token := databases[r.IntN(len(databases))], 1+r.IntN(30)
		c, err := s.in(database, token)
		if token < highest[database] {
			refusedWith(t, err, "RF001")
			continue
		}
		if err != nil {
			t.Fatalf("token %d in %s, where the mark is %d: %v", token, database, highest[database], err)
		}
		highest[database] = token
		if r.IntN(2) == 0 {
			_ = c.Close(t.Context())
		}
	}
}

func TestADatabaseWithoutTheSchemaIsRefusedAndKeptOpenByNobody(t *testing.T) {
	t.Parallel()
	s := serveSeveral(t, Options{})
	plain := serverstest.FreshDatabase(t, s.pg)
	_, err := s.in(plain, 5)
	pg := refusedWith(t, err, "RF005")
	if !strings.Contains(pg.Message, plain) || !strings.Contains(pg.Hint, "guard install "+
		"--databases "+plain) {
		t.Errorf("it says %q, %q", pg.Message, pg.Hint)
	}
	s.awaitClosed(plain)
	s.AwaitMetric("ringfence_refusals_total", "not_installed", 1)
	if err := s.p.Ready(t.Context()); err != nil {
		t.Errorf("the guard is not ready: %v", err)
	}
	prepared(t, s.pg, plain)
	s.mustBeIn(plain, 5)
}

func TestTheGuardIsReadyWhileOneOfItsDatabasesIs(t *testing.T) {
	t.Parallel()
	s := serveSeveral(t, Options{})
	crm := s.fresh()
	s.mustBeIn(crm, 5)
	pgtest.Exec(t, s.pg.URL("postgres", s.database),
		"drop schema ringfence, ringfence_private cascade")
	must.Report(t, s.p.Ready(t.Context()))
	all := s.p.Databases(t.Context())
	if len(all) != 2 || all[crm] != nil || all[s.database] == nil {
		t.Errorf("%v", all)
	}
	pgtest.Exec(t, s.pg.URL("postgres", crm), "drop schema ringfence, ringfence_private cascade")
	if err := s.p.Ready(t.Context()); err == nil {
		t.Error("ready, and no database can admit")
	}
}

func TestWhoHasNotLoggedInOpensNoDatabase(t *testing.T) {
	t.Parallel()
	s := serveSeveral(t, Options{})
	crm := s.fresh()
	_, err := pgx.Connect(t.Context(),
		"postgres://nobody_"+crm+"@"+s.Addr+"/"+crm+"?sslmode=disable&options=-c%20fence.orders%3D5")
	if err == nil {
		t.Fatal("a role that is not there has logged in")
	}
	if n := s.opened.Load(); n != 0 {
		t.Errorf("%d databases were opened", n)
	}
}

func TestADatabaseThatTheSettingsDoNotNameIsRefused(t *testing.T) {
	t.Parallel()
	pg := serverstest.SharedPostgres(t)
	crm := prepared(t, pg, serverstest.FreshDatabase(t, pg))
	s := serveSeveral(t, Options{Databases: []string{crm}})
	s.mustBeIn(crm, 5)
	s.mustBeIn(s.database, 5)
	_, err := s.in(s.fresh(), 5)
	if pg := refusedWith(t, err, "3D000"); !strings.Contains(pg.Hint, "GUARD_POSTGRES_DATABASES") {
		t.Errorf("the hint is %q", pg.Hint)
	}
}

func TestDatabasesThatTakeNobodyOrAreNotThereAreRefusedByTheServer(t *testing.T) {
	t.Parallel()
	s := serveSeveral(t, Options{})
	for database, code := range map[string]string{"template0": "55000", "no_such_database": "3D000"} {
		_, err := s.in(database, 5)
		if pg, ok := errors.AsType[*pgconn.PgError](err); !ok || pg.Code != code {
			t.Errorf("%s: %v", database, err)
		}
	}
	if n := s.opened.Load(); n != 0 {
		t.Errorf("%d databases were opened", n)
	}
}

func TestACrowdOpensADatabaseOnce(t *testing.T) {
	t.Parallel()
	s := serveSeveral(t, Options{})
	crm := s.fresh()
	var all sync.WaitGroup
	for range 30 {
		all.Go(func() {
			if _, err := s.in(crm, 5); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := s.opened.Load(); n != 1 {
		t.Errorf("the database was opened %d times", n)
	}
}

func TestAnUnusedDatabaseIsClosedAndOpenedAgain(t *testing.T) {
	t.Parallel()
	s := serveSeveral(t, Options{DatabaseIdle: 50 * time.Millisecond})
	crm := s.fresh()
	first, c := s.mustBeIn(crm, 9), s.mustBeIn(crm, 9)
	_ = first.Close(t.Context())
	hr := s.fresh()
	_ = s.mustBeIn(hr, 5).Close(t.Context())
	s.awaitClosed(hr)
	if err := c.Ping(t.Context()); err != nil || s.connections(crm) == 0 {
		t.Errorf("a database in use was closed: %v", err)
	}
	_ = c.Close(t.Context())
	s.awaitClosed(crm)
	_, err := s.in(crm, 8)
	refusedWith(t, err, "RF001")
	s.mustBeIn(crm, 9)
	if n := s.opened.Load(); n < 3 {
		t.Errorf("opened %d times", n)
	}
}

func TestAnUnusedDatabaseMakesRoomForAnotherOne(t *testing.T) {
	t.Parallel()
	s := serveSeveral(t, Options{MaxDatabases: 2})
	crm, hr := s.fresh(), s.fresh()
	c := s.mustBeIn(crm, 5)
	_, err := s.in(hr, 5)
	if pg := refusedWith(t, err, "53300"); !strings.Contains(pg.Hint, "GUARD_POSTGRES_MAX_DATABASES") {
		t.Errorf("the hint is %q", pg.Hint)
	}
	s.mustBeIn(s.database, 5)
	_ = c.Close(t.Context())
	s.AwaitMetric("ringfence_sessions", crm, 0)
	stalled := s.p.databases.At(crm) // of a client that never gets on with its login
	defer stalled.Leave()
	for { // the session has ended a moment before it has left
		if _, err = s.in(hr, 5); err == nil {
			break
		}
		refusedWith(t, err, "53300")
		if t.Failed() {
			return
		}
	}
	if n := s.connections(crm); n != 0 {
		t.Errorf("%d connections to the other one are left", n)
	}
}

// The marks of a database go with it. The name is another database's then.
func TestARenamedDatabaseKeepsItsMarksAndItsNameHasNone(t *testing.T) {
	t.Parallel()
	s := serveSeveral(t, Options{})
	crm := s.fresh()
	gone := crm + "_renamed"
	s.mustBeIn(crm, 9)
	allow := s.disconnect(crm)
	admin := s.pg.URL("postgres", "postgres")
	pgtest.Exec(t, admin, fmt.Sprintf("alter database %s rename to %s", crm, gone))
	t.Cleanup(func() { pgtest.Exec(t, admin, "drop database if exists "+gone+" with (force)") })
	allow(gone)
	_, err := s.in(gone, 8)
	refusedWith(t, err, "RF001")
	s.mustBeIn(gone, 9)

	pgtest.Exec(t, admin, "create database "+crm+" template template0")
	prepared(t, s.pg, crm)
	s.mustBeIn(crm, 3) // a database that nobody has led
	_, err = s.in(crm, 2)
	refusedWith(t, err, "RF001")
	_, err = s.in(gone, 8)
	refusedWith(t, err, "RF001")
}

func TestADatabaseThatWasDroppedAndCreatedHasNewMarks(t *testing.T) {
	t.Parallel()
	s := serveSeveral(t, Options{})
	crm := s.fresh()
	old := s.mustBeIn(crm, 9)
	admin := s.pg.URL("postgres", "postgres")
	pgtest.Exec(t, admin, "drop database "+crm+" with (force)")
	if err := old.Ping(t.Context()); err == nil {
		t.Error("a session of the dropped database is still open")
	}
	pgtest.Exec(t, admin, "create database "+crm+" template template0")
	_, err := s.in(crm, 10)
	refusedWith(t, err, "RF005")
	prepared(t, s.pg, crm)
	s.mustBeIn(crm, 10)
	_, err = s.in(crm, 9)
	refusedWith(t, err, "RF001")
	if n := pgtest.Value[int](t, s.pg.URL("postgres", crm),
		"select count(*) from ringfence_private.session"); n != 1 {
		t.Errorf("%d sessions are recorded, want 1", n)
	}
}

// Where the list of sessions is lost, everybody is ended once, but only in that database.
func TestALostListOfSessionsEndsNobodyInOtherDatabases(t *testing.T) {
	t.Parallel()
	s := serveSeveral(t, Options{})
	crm := s.fresh()
	shop := s.mustBeIn(s.database, 9)
	old := s.mustBeIn(crm, 5)
	pgtest.Exec(t, s.pg.URL("postgres", crm), "drop schema ringfence, ringfence_private cascade")
	prepared(t, s.pg, crm)
	store, err := pgmarks.Open(s.pg.URL("guard_role", crm), pgmarks.Options{})
	must.Succeed(t, err)
	defer store.Close()
	if _, err := store.Adopt(t.Context(), fence.Claim{
		Resource: "orders", Issuer: elector.Unverified,
	}, "test"); err != nil {
		t.Fatal(err)
	}
	s.mustBeIn(crm, 6)
	if err := old.Ping(t.Context()); err == nil {
		t.Error("a session that nothing lists is still open")
	}
	if err := shop.Ping(t.Context()); err != nil {
		t.Errorf("a session of another database was ended: %v", err)
	}
}

// A copy of a database has a copy of the marks, which proves nothing about the copy.
func TestACopyOfADatabaseHasToBeAdopted(t *testing.T) {
	t.Parallel()
	s := serveSeveral(t, Options{})
	crm := s.fresh()
	s.mustBeIn(crm, 9)
	allow := s.disconnect(crm)
	admin := s.pg.URL("postgres", "postgres")
	pgtest.Exec(t, admin, fmt.Sprintf("create database %s_copy template %s", crm, crm))
	copied := crm + "_copy"
	t.Cleanup(func() { pgtest.Exec(t, admin, "drop database if exists "+copied+" with (force)") })
	allow(crm)
	allow(copied)
	original := s.mustBeIn(crm, 9)
	// its locks have the numbers of the copied gate
	direct := pgtest.Connect(t, s.pg.URL("app", crm))
	tx, err := pgmarks.Begin(t.Context(), direct, fence.Claim{
		Resource: "orders", Token: 9, Issuer: elector.Unverified,
	}, pgx.TxOptions{})
	must.Succeed(t, err)
	for _, token := range []int{8, 9, 10} {
		_, err := s.in(copied, token)
		if err == nil {
			t.Fatalf("token %d was admitted to a copy of which nobody knows the mark", token)
		}
	}
	prepared(t, s.pg, copied)
	if _, err := s.in(copied, 10); err == nil {
		t.Fatal("an installation vouches for the marks of a copy")
	}
	store, err := pgmarks.Open(s.pg.URL("guard_role", copied), pgmarks.Options{})
	must.Succeed(t, err)
	defer store.Close()
	if _, err := store.Adopt(t.Context(), fence.Claim{
		Resource: "orders", Issuer: elector.Unverified,
	}, "test"); err != nil {
		t.Fatal(err)
	}
	s.mustBeIn(copied, 3)
	if err := original.Ping(t.Context()); err != nil {
		t.Errorf("what happened in the copy has ended a session of the original: %v", err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Errorf("what happened in the copy has ended a transaction of the original: %v", err)
	}
	_, err = s.in(crm, 8)
	refusedWith(t, err, "RF001")
}
