package flaw_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
	"github.com/ringfence/ringfence/lab/flaw"
	"github.com/ringfence/ringfence/lab/system"
)

// real is the name of the guard that has no flaw.
const real flaw.Name = ""

// guards are all guards that the tests use.
var guards = []flaw.Name{
	real, flaw.Observe, flaw.Apart, flaw.Memory, flaw.RefuseSame, flaw.AdmitLast,
	flaw.NoRoom, flaw.LogInPath, flaw.Renamed,
}

var dir string // of the programs

func TestMain(m *testing.M) {
	packages := map[string][]string{"../..": {"./cmd/guard"}, "..": {"./cmd/flawed-guard"}}
	os.Exit(serverstest.WithPrograms(packages, func(programs string) int {
		dir = programs
		return serverstest.RunMain(m)
	}))
}

// site is a guard with its own databases.
type site struct {
	t           *testing.T
	guard       *servers.Program
	log         string
	pg, redis   string // addresses of the guard
	environment []string
}

func newSite(t *testing.T, name flaw.Name) *site {
	t.Helper()
	at := serverstest.FreeAddresses(t, 3)
	s := &site{t: t, pg: at[0], redis: at[1], log: filepath.Join(t.TempDir(), "guard.log")}
	pg := serverstest.Postgres(t, servers.PostgresOptions{})
	db := serverstest.Redis(t, servers.RedisOptions{})
	s.environment = []string{
		"FLAW=" + string(name), "GUARD_DRAIN_TIMEOUT=1s",
		"GUARD_POSTGRES_LISTEN=" + s.pg, "GUARD_REDIS_LISTEN=" + s.redis,
		"GUARD_HTTP_LISTEN=" + at[2],
		"GUARD_POSTGRES_UPSTREAM=" + pg.URL("guard", "postgres"),
		"GUARD_REDIS_UPSTREAM=" + db.URL(),
	}
	s.install(pg)
	command := []string{filepath.Join(dir, "flawed-guard")}
	if name == real {
		command = []string{filepath.Join(dir, "guard"), "serve"}
	}
	guard, err := servers.NewProgram(servers.ProgramOptions{
		Name: "guard", Command: command, Log: s.log,
		Env: func() []string { return s.environment },
		Ready: func(ctx context.Context) error {
			return system.Ready(ctx, "http://"+at[2]+"/readyz")
		},
	})
	must.Succeed(t, err)
	s.guard = guard
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(s.guard.LogTail(30))
		}
		must.Report(t, s.guard.Close())
	})
	must.Succeed(t, s.guard.Start(t.Context()))
	return s
}

// install creates the roles, a table for entries, and what guards need.
func (s *site) install(pg *servers.Postgres) {
	s.t.Helper()
	err := system.Exec(s.t.Context(), pg.URL("postgres", "postgres"), "create role guard login",
		"create role app login", "create table entry (token bigint)", "grant all on entry to app")
	must.Succeed(s.t, err)
	cmd := exec.Command(filepath.Join(dir, "guard"), "install")
	cmd.Env = append(s.environment[2:], "GUARD_POSTGRES_ADMIN="+pg.URL("postgres", "postgres"))
	if out, err := cmd.CombinedOutput(); err != nil {
		s.t.Fatalf("guard install: %v\n%s", err, out)
	}
}

// restart kills the guard and starts it again.
func (s *site) restart() {
	s.t.Helper()
	must.Succeed(s.t, errors.Join(s.guard.Kill(), s.guard.Start(s.t.Context())))
}

// session is a connection under a token.
type session interface{ write() error }

// stores has how to open a session, by the name of the store.
var stores = map[string]func(s *site, token int) (session, error){
	"postgres": (*site).openPostgres, "redis": (*site).openRedis,
}

type pgSession struct {
	c     *pgx.Conn
	token int
}

func (s *site) openPostgres(token int) (session, error) {
	ctx, cancel := context.WithTimeout(s.t.Context(), 20*time.Second)
	defer cancel()
	c, err := pgx.Connect(ctx, fmt.Sprintf(
		"postgres://app@%s/postgres?sslmode=disable&options=-c%%20fence.orders%%3D%d", s.pg, token))
	if err != nil {
		return nil, err
	}
	s.t.Cleanup(func() { _ = c.Close(context.Background()) })
	return &pgSession{c, token}, nil
}

func (p *pgSession) write() error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	_, err := p.c.Exec(ctx, "insert into entry values ($1)", p.token)
	return err
}

type redisSession struct {
	db *driver.Client
	c  *driver.Conn
}

func (s *site) openRedis(token int) (session, error) {
	db := driver.NewClient(&driver.Options{
		Addr: s.redis, MaxRetries: -1, DialerRetries: 1, Protocol: 2, DisableIdentity: true,
		PoolSize:    1,
		ReadTimeout: 20 * time.Second, ClientName: fmt.Sprintf("fence.orders=%d", token),
	})
	c := db.Conn()
	s.t.Cleanup(func() { _, _ = c.Close(), db.Close() })
	if err := c.Ping(s.t.Context()).Err(); err != nil {
		return nil, err
	}
	return &redisSession{db, c}, nil
}

func (r *redisSession) write() error {
	return r.c.RPush(context.Background(), "entries", "x").Err()
}

// stale reports whether a refusal says that there is a newer leader.
func stale(err error) bool {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pg.Code == "RF001"
	}
	return err != nil && strings.Contains(err.Error(), "STALETOKEN")
}

// attempt logs in and writes.
func (s *site) attempt(open func(*site, int) (session, error), token int) (session, error) {
	one, err := open(s, token)
	if err != nil {
		return nil, err
	}
	return one, one.write()
}

// TestFlaws has the same dialogue with each guard. Each flaw shows in its place and nowhere else.
// The real guard shows none, so the test fails if the real guard has one of them. LogInPath shows
// none as long as its log is read, and Renamed none where no command is renamed.
func TestFlaws(t *testing.T) {
	for _, name := range guards {
		for which, open := range stores {
			t.Run(string(name)+"/"+which, func(t *testing.T) {
				t.Parallel()
				dialogue(t, newSite(t, name), name, open)
			})
		}
	}
}

func dialogue(t *testing.T, s *site, name flaw.Name, open func(*site, int) (session, error)) {
	accepted := func(what string, err error, flaws ...flaw.Name) {
		t.Helper()
		flawed := slices.Contains(flaws, name)
		if flawed && !stale(err) {
			t.Errorf("%s: the flaw does not show: %v", what, err)
		}
		if !flawed && err != nil {
			t.Errorf("%s was refused: %v", what, err)
		}
	}
	refused := func(what string, err error, flaws ...flaw.Name) {
		t.Helper()
		flawed := slices.Contains(flaws, name)
		if flawed && err != nil {
			t.Errorf("%s: the flaw does not show: %v", what, err)
		}
		if !flawed && !stale(err) {
			t.Errorf("%s was not refused as stale: %v", what, err)
		}
	}
	old, err := s.attempt(open, 5)
	accepted("the first leader", err)
	_, err = s.attempt(open, 5)
	accepted("another session of the leader", err, flaw.RefuseSame)

	_, err = s.attempt(open, 9)
	accepted("the second leader", err)
	refused("a session of the first leader", old.write(), flaw.Observe, flaw.Apart)
	_, err = s.attempt(open, 5)
	refused("the first leader, on a new connection", err, flaw.Observe, flaw.AdmitLast)

	_, err = s.attempt(open, 11)
	accepted("the third leader", err)
	_, err = s.attempt(open, 5)
	refused("the first of three leaders", err, flaw.Observe)

	s.restart()
	_, err = s.attempt(open, 9)
	refused("the second leader, at a restarted guard", err, flaw.Observe, flaw.Memory)
	_, err = s.attempt(open, 11)
	accepted("the third leader, at a restarted guard", err, flaw.RefuseSame)
}

func TestAFlawedGuardLogsItsFlawFirst(t *testing.T) {
	s := newSite(t, flaw.Apart)
	text, err := os.ReadFile(s.log)
	must.Succeed(t, err)
	first, _, _ := strings.Cut(string(text), "\n")
	if !strings.Contains(first, "flawed on purpose") || !strings.Contains(first, "check-apart") {
		t.Errorf("its first line is %s", first)
	}
}

func TestAGuardThatMakesNoRoomRaisesOnlyForASession(t *testing.T) {
	s, err := flaw.Store(flaw.NoRoom, roomy{}, nil, nil)
	must.Succeed(t, err)
	if _, ok := s.(marks.Crowded); ok {
		t.Error("it ends older sessions before a raise")
	}
	if _, err := s.Raise(t.Context(), marks.SessionID{}, fence.Claim{}, nil); err == nil {
		t.Error("it has raised the mark for a session that has not logged in")
	}
	if _, err := s.Raise(t.Context(), marks.SessionID{ID: 7}, fence.Claim{}, nil); err != nil {
		t.Error(err)
	}
}

// roomy is a store that can make room and raises for everybody.
type roomy struct {
	marks.Store
	marks.Crowded
}

func (roomy) Raise(
	context.Context, marks.SessionID, fence.Claim, marks.Confirm,
) (marks.Mark, error) {
	return marks.Mark{}, nil
}

func TestAnUnknownFlawIsAnError(t *testing.T) {
	for _, name := range []flaw.Name{"", flaw.FirstToken} {
		if _, err := flaw.Store(name, nil, nil, nil); err == nil ||
			!strings.Contains(err.Error(), "observe-only") {
			t.Errorf("%q: %v", name, err)
		}
	}
}
