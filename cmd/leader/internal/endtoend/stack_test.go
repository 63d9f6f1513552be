package endtoend

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/zookeeper"
	"github.com/ringfence/ringfence/internal/test/elections"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/pgtest"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// Session timeouts. A busy machine may stall for a second at any time.
const (
	longSession = 30 * time.Second // no test waits for it to expire
	// of leaders that are killed or paused; long enough on a busy machine
	shortSession = 5 * time.Second
	tinySession  = time.Second // of leaders that may lose their term at any time
)

// stack is one server of each kind.
type stack struct {
	t     testing.TB
	zk    *servers.ZooKeeper // nil when the coordinator is another one
	pg    *servers.Postgres
	redis *servers.Redis
	ctx   context.Context // with a deadline; also for cleanup

	coordinator string // its URL
}

// newStack has a ZooKeeper of its own as the coordinator.
func newStack(t testing.TB) *stack {
	t.Helper()
	zk := serverstest.ZooKeeper(t, servers.ZooKeeperOptions{Nodes: 1})
	s := newStackWith(t, "zk://"+zk.Addr()+"/e2e")
	s.zk = zk
	return s
}

// onEveryCoordinator runs a test on a stack with each coordinator.
func onEveryCoordinator(t *testing.T, test func(*testing.T, *stack)) {
	for name, coordinator := range elections.Coordinators {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, _ := coordinator.Own(t)
			test(t, newStackWith(t, url))
		})
	}
	t.Run("the guarded postgres", func(t *testing.T) {
		t.Parallel()
		test(t, newStackWith(t, ""))
	})
}

// newStackWith has the coordinator at this URL. If there is none, the guarded Postgres is its own.
func newStackWith(t testing.TB, coordinator string) *stack {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 8*time.Minute)
	t.Cleanup(cancel)
	s := &stack{
		t: t, ctx: ctx, coordinator: coordinator,
		pg: serverstest.Postgres(t, servers.PostgresOptions{}),
		redis: serverstest.Redis(t, servers.RedisOptions{
			Args: []string{"--appendonly", "yes", "--appendfsync", "always"},
		}),
	}
	if coordinator == "" {
		s.coordinator = s.pg.URL("elections", "postgres")
	}
	s.sql(`create role guard login; create role app login; create role stranger login; create role elections login;
	    create table ledger (n bigserial, token bigint, note text);
	    create table spare (note text);
	    grant all on ledger, ledger_n_seq, spare to app`)
	if out, err := s.program("guard", "install").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return s
}

// program prepares guard or leader with the settings of this stack.
func (s *stack) program(name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(s.ctx, filepath.Join(programs, name), args...)
	cmd.Env = append(os.Environ(),
		"GUARD_POSTGRES_UPSTREAM="+s.pg.URL("guard", "postgres"),
		"GUARD_POSTGRES_ADMIN="+s.pg.URL("postgres", "postgres"),
		"GUARD_REDIS_UPSTREAM="+s.redis.URL(), "GUARD_ADMIT_TIMEOUT=20s",
		"GUARD_COORDINATOR="+s.coordinator,
		"LEADER_COORDINATOR="+s.coordinator, "LEADER_SESSION_TIMEOUT="+longSession.String())
	return cmd
}

// guard is a guard process.
type guard struct {
	s               *stack
	cmd             *exec.Cmd
	pg, redis, page string
	log             *os.File
	env             []string // further settings
	// listeners for these addresses that it is started with; nil: it opens its own
	sockets []*os.File
}

func (s *stack) guard() *guard {
	s.t.Helper()
	g := s.prepared(serverstest.FreeAddresses(s.t, 3))
	g.start()
	return g
}

// prepared is a guard with these addresses for Postgres, Redis and HTTP that is not started yet.
func (s *stack) prepared(at []string) *guard {
	s.t.Helper()
	log, err := os.Create(filepath.Join(s.t.TempDir(), "guard.log"))
	must.Succeed(s.t, err)
	g := &guard{s: s, pg: at[0], redis: at[1], page: at[2], log: log}
	s.t.Cleanup(func() {
		g.signal(syscall.SIGCONT)
		g.kill()
		if s.t.Failed() {
			text, _ := os.ReadFile(log.Name())
			s.t.Logf("guard log:\n%s", text)
		}
		log.Close()
	})
	return g
}

// depose has an operator end the term of orders.
func (s *stack) depose() {
	s.t.Helper()
	if out, err := s.program("leader", "resign", "orders").CombinedOutput(); err != nil {
		s.t.Fatalf("%v: %s", err, out)
	}
}

const pollEvery = 5 * time.Millisecond

// start starts the guard on its addresses and waits until it is ready.
func (g *guard) start() {
	g.s.t.Helper()
	g.cmd = g.s.program("guard", "serve")
	g.cmd.Env = append(g.cmd.Env, "GUARD_POSTGRES_LISTEN="+g.pg, "GUARD_REDIS_LISTEN="+g.redis,
		"GUARD_HTTP_LISTEN="+g.page, "GUARD_LOG=debug")
	g.cmd.Env = append(g.cmd.Env, g.env...)
	if g.sockets != nil {
		// Only the process itself knows its id in time.
		environ, program := g.cmd.Env, g.cmd.Path
		g.cmd = exec.CommandContext(g.s.ctx, "sh", "-c", `LISTEN_PID=$$ exec "$0" serve`, program)
		g.cmd.ExtraFiles = g.sockets
		g.cmd.Env = append(environ, "LISTEN_FDS=3", "LISTEN_FDNAMES=postgres:redis:http",
			"GUARD_POSTGRES_LISTEN=systemd:postgres", "GUARD_REDIS_LISTEN=systemd:redis",
			"GUARD_HTTP_LISTEN=systemd:http")
	}
	g.cmd.Stderr = g.log
	must.Succeed(g.s.t, g.cmd.Start())
	g.ready()
}

func (g *guard) ready() {
	g.s.t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for {
		answer, err := client.Get("http://" + g.page + "/readyz")
		if err == nil {
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return
			}
		}
		if g.s.ctx.Err() != nil {
			g.s.t.Fatal("the guard did not become ready")
		}
		time.Sleep(pollEvery)
	}
}

// pause stops the guard and waits until every thread of it has stopped.
func (g *guard) pause() {
	g.s.t.Helper()
	g.signal(syscall.SIGSTOP)
	awaitStopped(g.s, g.cmd.Process.Pid)
}

func awaitStopped(s *stack, pid int) {
	s.t.Helper()
	for {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil || len(threads) == 0 {
			s.t.Fatalf("process %d does not exist: %v", pid, err)
		}
		if !slices.ContainsFunc(threads, runs) {
			return
		}
		if s.ctx.Err() != nil {
			s.t.Fatal("the process did not stop")
		}
		time.Sleep(pollEvery)
	}
}

// runs reports whether a thread of a /proc stat line is not stopped. The state follows the name,
// which is in brackets.
func runs(stat string) bool {
	text, err := os.ReadFile(stat)
	_, state, _ := strings.Cut(string(text), ") ")
	return err == nil && !strings.HasPrefix(state, "T")
}

func (g *guard) signal(sig syscall.Signal) { _ = g.cmd.Process.Signal(sig) }

func (g *guard) kill() {
	_ = g.cmd.Process.Kill()
	_ = g.cmd.Wait()
}

// term wins a term in this process.
func (s *stack) term(holder string) *fence.Term {
	s.t.Helper()
	co, err := zookeeper.Open(s.ctx, s.coordinator, zookeeper.Options{SessionTimeout: longSession})
	must.Succeed(s.t, err)
	s.t.Cleanup(func() { _ = co.Close() })
	term, err := co.Campaign(s.ctx, "orders", holder)
	must.Succeed(s.t, err)
	return term
}

func (s *stack) resign(t *fence.Term) {
	s.t.Helper()
	must.Succeed(s.t, t.Resign(s.ctx))
}

func pgURL(address string, token fence.Token) string {
	return fmt.Sprintf("postgres://app@%s/postgres?options=-c%%20fence.orders%%3D%s", address, token)
}

func (g *guard) postgres(token fence.Token) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(g.s.ctx, 30*time.Second)
	defer cancel()
	c, err := pgx.Connect(ctx, pgURL(g.pg, token))
	if err == nil {
		g.s.t.Cleanup(func() { _ = c.Close(context.Background()) })
	}
	return c, err
}

func (g *guard) mustPostgres(token fence.Token) *pgx.Conn {
	g.s.t.Helper()
	c, err := g.postgres(token)
	must.Succeed(g.s.t, err)
	return c
}

// redisClient has one connection and never retries.
func redisClient(address string, token fence.Token) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: address, ClientName: fmt.Sprintf("fence.orders=%s", token), PoolSize: 1, MaxRetries: -1,
		DialTimeout: 30 * time.Second, ReadTimeout: 30 * time.Second, ContextTimeoutEnabled: true,
	})
}

func (g *guard) redisClient(token fence.Token) *redis.Client {
	c := redisClient(g.redis, token)
	g.s.t.Cleanup(func() { _ = c.Close() })
	return c
}

// sql runs statements as the superuser, without a guard.
func (s *stack) sql(text string) {
	s.t.Helper()
	pgtest.Exec(s.t, s.pg.URL("postgres", "postgres"), text)
}

// column reads one column, without a guard.
func (s *stack) column(query string) []string {
	s.t.Helper()
	return pgtest.Column[string](s.t, s.pg.URL("postgres", "postgres"), query)
}

// list reads a Redis list, without a guard.
func (s *stack) list(key string) []string {
	s.t.Helper()
	c := redis.NewClient(&redis.Options{Addr: s.redis.Addr()})
	defer c.Close()
	all, err := c.LRange(s.ctx, key, 0, -1).Result()
	must.Succeed(s.t, err)
	return all
}

// wantStale checks that the error is the guard's refusal of a stale token, in either protocol.
func wantStale(t *testing.T, what string, err error) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), "RF001") &&
		!strings.Contains(err.Error(), "STALETOKEN") {
		t.Errorf("%s: got %v, want it refused as stale", what, err)
	}
}

// enrol enrols a candidate behind the present leader and returns its token.
func (s *stack) enrol(holder string) fence.Token {
	s.t.Helper()
	co, err := zookeeper.Open(s.ctx, s.coordinator, zookeeper.Options{SessionTimeout: longSession})
	must.Succeed(s.t, err)
	ctx, cancel := context.WithCancel(s.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = co.Campaign(ctx, "orders", holder)
	}()
	s.t.Cleanup(func() { cancel(); <-done; _ = co.Close() })
	for {
		queue, err := co.Candidates(s.ctx, "orders")
		must.Succeed(s.t, err)
		for _, c := range queue {
			if c.Holder == holder {
				return c.Token
			}
		}
		time.Sleep(pollEvery)
	}
}
