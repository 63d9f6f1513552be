package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/zookeeper"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
	"github.com/ringfence/ringfence/lab/history"
	"github.com/ringfence/ringfence/lab/scenario"
	"github.com/ringfence/ringfence/lab/system"
)

const (
	session   = 10 * time.Second // so long that terms are lost only when the test wants
	stageTime = 4 * time.Minute  // for all of one test
	awaitTime = 30 * time.Second // for one event
)

// The servers of all tests.
var (
	sharedOnce sync.Once
	sharedPG   *servers.Postgres
	sharedRD   *servers.Redis
	sharedZK   *servers.ZooKeeper
	sharedErr  error
)

func closeShared() {
	if sharedPG != nil {
		_ = sharedPG.Close()
	}
	if sharedRD != nil {
		_ = sharedRD.Close()
	}
	if sharedZK != nil {
		_ = sharedZK.Close()
	}
}

func startShared() {
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	sharedPG, sharedErr = servers.StartPostgres(ctx, servers.PostgresOptions{
		Settings: map[string]string{"wal_keep_size": "1GB"}, // to read the order of commits
	})
	if sharedErr != nil {
		return
	}
	sharedRD, sharedErr = servers.StartRedis(ctx, servers.RedisOptions{
		Args: []string{"--appendonly", "yes", "--appendfsync", "always"},
	})
	if sharedErr != nil {
		return
	}
	sharedZK, sharedErr = servers.StartZooKeeper(ctx, servers.ZooKeeperOptions{Nodes: 1})
	if sharedErr != nil {
		return
	}
	sharedErr = system.Exec(ctx, sharedPG.URL("postgres", "postgres"), "create role guard login",
		"create role app login", "create role direct login in role guard, app")
}

// stage is a database, a coordinator and a guard for one test.
type stage struct {
	t           *testing.T
	ctx         context.Context
	database    string
	root        string
	zk          *servers.ZooKeeper
	guard       *exec.Cmd
	pg, rd      string // addresses of the guard
	db          *pgx.Conn
	rdb         *driver.Client
	coordinator *zookeeper.Coordinator
}

func newStage(t *testing.T) *stage {
	t.Helper()
	sharedOnce.Do(startShared)
	if sharedErr != nil {
		t.Fatal(sharedErr)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), stageTime)
	t.Cleanup(cancel)
	s := &stage{
		t: t, ctx: ctx, zk: sharedZK,
		database: "lab_" + strconv.FormatInt(time.Now().UnixNano(), 36),
	}
	s.root = "/" + s.database
	s.makeDatabase()
	s.rdb = driver.NewClient(&driver.Options{Addr: sharedRD.Addr()})
	t.Cleanup(func() { _ = s.rdb.Close() })
	s.must(s.rdb.FlushAll(ctx).Err())
	out, err := s.program("guard", "install").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s.startGuard()
	s.coordinator, err = zookeeper.Open(ctx, s.coordinatorURL(),
		zookeeper.Options{SessionTimeout: session})
	s.must(err)
	t.Cleanup(func() { _ = s.coordinator.Close() })
	return s
}

func (s *stage) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) makeDatabase() {
	s.must(system.Exec(s.ctx, sharedPG.URL("postgres", "postgres"),
		"create database "+s.database+" template template0"))
	var err error
	s.db, err = pgx.Connect(s.ctx, s.superuser())
	s.must(err)
	s.must(system.Exec(s.ctx, s.superuser(), system.Tables))
	s.t.Cleanup(func() { _ = s.db.Close(s.ctx) })
}

func (s *stage) superuser() string      { return sharedPG.URL("postgres", s.database) }
func (s *stage) coordinatorURL() string { return "zk://" + s.zk.Addr() + s.root }

// program returns the command of one of our programs.
func (s *stage) program(name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(s.ctx, filepath.Join(programs, name), args...)
	cmd.Env = append(os.Environ(),
		"GUARD_POSTGRES_UPSTREAM="+sharedPG.URL("guard", s.database),
		"GUARD_POSTGRES_ADMIN="+s.superuser(), "GUARD_POSTGRES_LEADERS=app",
		"GUARD_REDIS_UPSTREAM="+sharedRD.URL(), "GUARD_COORDINATOR="+s.coordinatorURL(),
		"GUARD_ADMIT_TIMEOUT=5s", "LEADER_GRACE=200ms",
		"LEADER_COORDINATOR="+s.coordinatorURL(), "LEADER_SESSION_TIMEOUT="+session.String(),
		fmt.Sprintf("LEADER_STORES=postgres://app@%s/%s,redis://%s", s.pg, s.database, s.rd))
	return cmd
}

func (s *stage) startGuard() {
	s.t.Helper()
	at := serverstest.FreeAddresses(s.t, 3)
	page := at[2]
	s.pg, s.rd = at[0], at[1]
	s.guard = s.program("guard", "serve")
	s.guard.Env = append(s.guard.Env,
		"GUARD_POSTGRES_LISTEN="+s.pg, "GUARD_REDIS_LISTEN="+s.rd, "GUARD_HTTP_LISTEN="+page)
	var log bytes.Buffer
	s.guard.Stderr = &log
	s.must(s.guard.Start())
	s.t.Cleanup(func() {
		_ = s.guard.Process.Kill()
		_ = s.guard.Wait()
		if s.t.Failed() {
			s.t.Logf("guard:\n%s", log.String())
		}
	})
	s.await("the guard is ready", func() bool {
		return system.Ready(s.ctx, "http://"+page+"/readyz") == nil
	})
}

// await polls until a condition holds.
func (s *stage) await(what string, holds func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(awaitTime); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("this does not happen: %s", what)
		}
	}
}

// config returns the settings of a worker on this stage.
func (s *stage) config(name string) Config {
	return Config{
		Name: name, Coordinator: s.coordinatorURL(), Session: session,
		Pause: 2 * time.Millisecond, Deadline: 10 * time.Second,
		Postgres: fmt.Sprintf("postgres://app@%s/%s", s.pg, s.database), Redis: "redis://" + s.rd,
		Route: scenario.Guarded, Kind: scenario.Ledger,
		Journal: sharedPG.URL("app", s.database), World: s.superuser(),
	}
}

// direct makes a worker bypass the guard.
func (s *stage) direct(c Config, r scenario.Route) Config {
	c.Route, c.Postgres, c.Redis = r, sharedPG.URL("direct", s.database), sharedRD.URL()
	return c
}

func environment(c Config) []string {
	return []string{
		"LAB_NAME=" + c.Name, "LAB_COORDINATOR=" + c.Coordinator,
		"LAB_SESSION=" + c.Session.String(), "LAB_DEADLINE=" + c.Deadline.String(),
		"LAB_POSTGRES=" + c.Postgres, "LAB_REDIS=" + c.Redis,
		"LAB_JOURNAL=" + c.Journal, "LAB_WORLD=" + c.World,
		"LAB_ROUTE=" + string(c.Route), "LAB_KIND=" + string(c.Kind),
		"LAB_PAUSE=" + c.Pause.String(), "LAB_ROUNDS=" + strconv.FormatInt(c.Rounds, 10),
		"LAB_FAILPOINT=" + c.Failpoint, "LAB_CHILD=" + c.Child,
		"LAB_HTTP_LISTEN=" + c.HTTPListen, "LAB_LOG=" + strconv.FormatBool(c.Log),
	}
}

// run is a running worker, in this process or in another one.
type run struct {
	s    *stage
	name string
	w    *worker // nil for a process
	cmd  *exec.Cmd
	end  context.CancelFunc
	done chan struct{}
	code int

	mu  sync.Mutex
	all []history.Event
}

func (r *run) emit(e history.Event) {
	e.At = history.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, e)
}

// events returns the suitable events so far.
func (r *run) events(suits func(history.Event) bool) []history.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.all), func(e history.Event) bool { return !suits(e) })
}

// start runs a worker in this process.
func (s *stage) start(c Config) *run {
	ctx, cancel := context.WithCancel(s.ctx)
	r := &run{s: s, name: c.Name, end: cancel, done: make(chan struct{})}
	r.w = newWorker(c, r.emit, newSignals())
	go func() {
		defer close(r.done)
		r.code = r.w.run(ctx, s.t.Output())
	}()
	s.t.Cleanup(func() { r.stop() })
	return r
}

// launch runs a program and reads events from its output.
func (s *stage) launch(cmd *exec.Cmd) *run {
	s.t.Helper()
	r := &run{s: s, cmd: cmd, done: make(chan struct{}), end: func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Process.Signal(syscall.SIGCONT) // a failed test may have left it stopped
	}}
	out, err := cmd.StdoutPipe()
	s.must(err)
	cmd.Stderr = s.t.Output()
	s.must(cmd.Start())
	go func() {
		defer close(r.done)
		err := history.Each(out, func(e history.Event) error { r.emit(e); return nil })
		must.Report(s.t, err)
		_ = cmd.Wait()
		r.code = cmd.ProcessState.ExitCode()
	}()
	s.t.Cleanup(func() { r.stop() })
	return r
}

func (s *stage) process(c Config) *run {
	cmd := s.program("worker")
	cmd.Env = append(cmd.Env, environment(c)...)
	return s.launch(cmd)
}

// freeze stops a process, and returns once it is stopped.
func (r *run) freeze() {
	r.s.t.Helper()
	r.s.must(r.cmd.Process.Signal(syscall.SIGSTOP))
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(r.cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		r.s.must(err)
		if !status.Stopped() {
			r.s.t.Fatalf("the worker has ended instead of being stopped: %v", status)
		}
		return
	}
}

func (r *run) thaw() {
	r.s.t.Helper()
	r.s.must(r.cmd.Process.Signal(syscall.SIGCONT))
}

// stop ends the worker in order and returns its exit code.
func (r *run) stop() int {
	r.end()
	return r.wait()
}

func (r *run) wait() int {
	r.s.t.Helper()
	select {
	case <-r.done:
	case <-time.After(2 * awaitTime):
		r.s.t.Error("the worker does not end")
	}
	return r.code
}

// returns has the writes to one store with one outcome.
func (r *run) returns(store string, o history.Outcome) []history.Event {
	return r.events(func(e history.Event) bool {
		write := e.Kind == history.Return && e.Do == history.Write
		return write && e.Store == store && e.Outcome == o
	})
}

func (r *run) terms(state history.State) []history.Event {
	return r.events(func(e history.Event) bool {
		return e.Kind == history.Term && e.State == state
	})
}

// writes waits until a worker has made n more writes to both stores.
func (r *run) writes(n int) {
	r.s.t.Helper()
	written := func(store string) int { return len(r.returns(store, history.OK)) }
	pg, rd := written("postgres")+n, written("redis")+n
	r.s.await("the worker writes", func() bool {
		return written("postgres") >= pg && written("redis") >= rd
	})
}

// leads waits for the worker's n-th term and returns its token.
func (r *run) leads(n int) fence.Token {
	r.s.t.Helper()
	r.s.await("the worker leads", func() bool { return len(r.terms(history.Ready)) >= n })
	return r.terms(history.Ready)[n-1].Token
}

// stands waits until n candidates are in the queue.
func (s *stage) stands(n int) {
	s.t.Helper()
	s.await("they stand for election", func() bool {
		queue, err := s.coordinator.Candidates(s.ctx, scenario.Resource)
		return err == nil && len(queue) == n
	})
}

// removeCandidates deletes the znode of a killed process, which its session would keep for a while.
func (s *stage) removeCandidates() {
	s.t.Helper()
	queue, err := s.coordinator.Candidates(s.ctx, scenario.Resource)
	s.must(err)
	for _, c := range queue {
		_, err := s.coordinator.Depose(s.ctx, scenario.Resource, c.Token)
		s.must(err)
	}
}

func (s *stage) depose(t fence.Token) {
	s.t.Helper()
	ok, err := s.coordinator.Depose(s.ctx, scenario.Resource, t)
	if err != nil || !ok {
		s.t.Fatal(ok, err)
	}
}

// entryOf is a write that a database holds.
type entryOf struct {
	op    string
	token fence.Token
}

// evidence returns what both databases hold, in the order of commits.
func (s *stage) evidence() map[string][]entryOf {
	s.t.Helper()
	found := map[string][]entryOf{}
	s.must(system.Exec(s.ctx, s.superuser(), system.EndLog))
	for _, e := range s.column("select op || ' ' || token from ledger join commits using (xid) " +
		"order by start_lsn") {
		op, token, _ := strings.Cut(e, " ")
		found["postgres"] = append(found["postgres"], s.entry(op, token))
	}
	list, err := s.rdb.LRange(s.ctx, "ledger", 0, -1).Result()
	s.must(err)
	for _, e := range list {
		op, token, _ := strings.Cut(e, " ")
		found["redis"] = append(found["redis"], s.entry(op, token))
	}
	return found
}

func (s *stage) entry(op, token string) entryOf {
	t, err := fence.ParseToken(token)
	s.must(err)
	return entryOf{op, t}
}

// behind returns the entries that follow one with a newer token.
func behind(all []entryOf) (late []entryOf) {
	newest := fence.Token(0)
	for _, e := range all {
		if e.token < newest {
			late = append(late, e)
		}
		newest = max(newest, e.token)
	}
	return late
}

// judge compares a worker's outcomes with what the databases hold.
func (s *stage) judge(r *run, found map[string][]entryOf) {
	s.t.Helper()
	for _, e := range r.events(func(e history.Event) bool {
		return e.Kind == history.Return && e.Do == history.Write
	}) {
		there := slices.Contains(found[e.Store], entryOf{e.Op, e.Token})
		if there != (e.Outcome == history.OK) && e.Outcome != history.Unknown {
			s.t.Errorf("%s was %s (%s); is it in the database: %t", e.Op, e.Outcome, e.Text, there)
		}
	}
}
