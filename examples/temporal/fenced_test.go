package fenced

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/ringfence/ringfence/internal/test/servers"
)

const (
	patience = 4 * time.Minute
	lines    = 100
	stop     = 20 // the line at which the first attempt is stopped, in its transaction
	queue    = "bookings"
	timeout  = 10 * time.Second // of an attempt
)

// TestMain runs a worker where the environment names one: a process that can be stopped.
func TestMain(m *testing.M) {
	if os.Getenv("WORKER") == "" {
		os.Exit(m.Run())
	}
	if err := work(context.Background()); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func work(ctx context.Context) error {
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	defer pool.Close()
	c, err := client.DialContext(ctx, client.Options{
		HostPort: os.Getenv("TEMPORAL"), Namespace: os.Getenv("NAMESPACE"),
	})
	if err != nil {
		return err
	}
	defer c.Close()
	w := worker.New(c, queue, worker.Options{
		Interceptors:          []interceptor.WorkerInterceptor{&Interceptor{Pool: pool}},
		DisableWorkflowWorker: true,
		// so a worker that is stopped in an attempt gets no other one
		MaxConcurrentActivityExecutionSize: 1,
	})
	w.RegisterActivity(&bookkeeper{pool})
	return w.Run(worker.InterruptCh())
}

type bookkeeper struct{ pool *pgxpool.Pool }

// Book books lines, each in a transaction of its own, from where the attempt before has stopped. It
// goes on like a process that was paused, and does not look at its context.
func (b *bookkeeper) Book(ctx context.Context) (worker string, err error) {
	ctx = context.WithoutCancel(ctx)
	for booked := 0; booked < lines; {
		n, err := b.next(ctx)
		if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == "RF001" {
			return "", err
		}
		if err != nil {
			time.Sleep(10 * time.Millisecond) // a take-over has ended the transaction, or the network
			continue
		}
		booked = n
	}
	return os.Getenv("WORKER"), nil
}

// next books the next line, if there is one, and returns how many are booked.
func (b *bookkeeper) next(ctx context.Context) (booked int, err error) {
	tx, err := Begin(ctx, b.pool, pgx.TxOptions{})
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	if err := tx.QueryRow(ctx, "select count(*) from ledger").Scan(&booked); err != nil ||
		booked == lines {
		return booked, err
	}
	_, err = tx.Exec(ctx, "insert into ledger (line, attempt) values ($1, $2)", booked,
		activity.GetInfo(ctx).Attempt)
	if err != nil {
		return 0, err
	}
	return booked + 1, tx.Commit(ctx)
}

func booking(ctx workflow.Context) (worker string, err error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: timeout,
		RetryPolicy:         &temporal.RetryPolicy{InitialInterval: 100 * time.Millisecond},
	})
	var b *bookkeeper
	err = workflow.ExecuteActivity(ctx, b.Book).Get(ctx, &worker)
	return worker, err
}

// The first worker is stopped in its attempt. Temporal's timeout passes, the second worker does the
// next attempt, and the first one wakes up: it is refused, and each line is booked once.
func TestAnAttemptThatWakesUpBooksNothing(t *testing.T) {
	s := newStage(t)
	first, run := s.stopsAndWakes()
	var worker string
	if err := run.Get(s.ctx, &worker); err != nil || worker != "worker-2" {
		t.Errorf("the workflow: %q, %v", worker, err)
	}
	for !strings.Contains(first.LogTail(1000), "RF001") {
		s.waits("the first attempt is not refused")
	}
	if n := s.count("line in (select line from ledger group by line having count(*) > 1)"); n > 0 {
		t.Errorf("%d bookings of lines that are booked twice", n)
	}
	if n := s.count("attempt = 1 and n > (select min(n) from ledger where attempt > 1)"); n > 0 {
		t.Errorf("%d bookings by the first attempt after the next one had begun", n)
	}
	if n := s.count("true"); n != lines {
		t.Errorf("%d bookings", n)
	}
}

// Without enter the same attempt writes behind the next one, so the test above can fail.
func TestAnAttemptThatWakesUpBooksWithoutEnter(t *testing.T) {
	s := newStage(t)
	s.exec("create or replace function ringfence.enter(pass text) returns void language sql as ''")
	s.stopsAndWakes()
	for s.count("attempt = 1 and n > (select min(n) from ledger where attempt > 1)") == 0 {
		s.waits("the first attempt books nothing")
	}
}

func TestBeginNeedsAnAttempt(t *testing.T) {
	if _, err := Begin(t.Context(), nil, pgx.TxOptions{}); err == nil {
		t.Error("a transaction without a token")
	}
}

// stage is a Temporal server with a worker for workflows, and a Postgres for the ledger.
type stage struct {
	*testing.T
	ctx       context.Context
	url       string
	db        *pgx.Conn
	temporal  client.Client
	address   string // of Temporal
	namespace string
}

func newStage(t *testing.T) *stage {
	t.Helper()
	server := buildTemporal(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	pg, err := servers.StartPostgres(ctx, servers.PostgresOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pg.Close() })
	s := &stage{T: t, ctx: ctx, url: pg.URL("app", "postgres")}
	admin := pg.URL("postgres", "postgres")
	if s.db, err = pgx.Connect(ctx, admin); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.db.Close(context.WithoutCancel(ctx)) })
	s.exec("create role guard login; create role app login; create table ledger (n bigserial, line " +
		"int, attempt int)")
	s.exec("grant all on ledger, ledger_n_seq to app")
	s.exec("create function wait() returns trigger language plpgsql as 'begin perform " +
		"pg_advisory_xact_lock_shared(7); return new; end'")
	s.exec(fmt.Sprintf("create trigger wait before insert on ledger for each row when (new.line = "+
		"%d) execute function wait()", stop))
	install := exec.CommandContext(ctx, "go", "run", "./cmd/guard", "install")
	install.Dir = filepath.Join("..", "..")
	install.Env = append(os.Environ(), "GUARD_POSTGRES_UPSTREAM="+pg.URL("guard", "postgres"),
		"GUARD_POSTGRES_ADMIN="+admin, "GUARD_POSTGRES_LEADERS=app")
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s.startTemporal(server)
	// activities are the other processes'
	w := worker.New(s.temporal, queue, worker.Options{LocalActivityWorkerOnly: true})
	w.RegisterWorkflow(booking)
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return s
}

// buildTemporal builds a Temporal server, which takes minutes the first time.
func buildTemporal(t *testing.T) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "devserver")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".")
	build.Dir = "devserver"
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return program
}

func (s *stage) startTemporal(server string) {
	s.Helper()
	p := s.program("devserver", server)
	s.start(p)
	for s.address == "" {
		s.waits("Temporal does not start")
		for line := range strings.Lines(p.LogTail(1000)) {
			if n, _ := fmt.Sscan(line, &s.address, &s.namespace); n == 2 &&
				strings.HasPrefix(s.namespace, "temporaltest-") {
				break
			}
			s.address = ""
		}
	}
	c, err := client.DialContext(s.ctx, client.Options{HostPort: s.address, Namespace: s.namespace})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(c.Close)
	s.temporal = c
}

// stopsAndWakes stops worker-1 in the middle of its attempt, waits until worker-2 has begun the
// next one, and wakes it.
func (s *stage) stopsAndWakes() (first *servers.Program, run client.WorkflowRun) {
	s.Helper()
	s.exec("select pg_advisory_lock(7)")
	run, err := s.temporal.ExecuteWorkflow(s.ctx, client.StartWorkflowOptions{TaskQueue: queue},
		booking)
	if err != nil {
		s.Fatal(err)
	}
	first, second := s.worker("worker-1"), s.worker("worker-2")
	s.start(first)
	for waits := false; !waits; {
		if err := s.db.QueryRow(s.ctx, "select exists (select from pg_stat_activity where wait_event = "+
			"'advisory')").Scan(&waits); err != nil {
			s.Fatal(err)
		}
		s.waits("the first attempt does not begin")
	}
	if err := first.Pause(); err != nil {
		s.Fatal(err)
	}
	s.exec("select pg_advisory_unlock(7)")
	s.start(second)
	for s.count("attempt > 1") == 0 {
		s.waits("the next attempt does not begin")
	}
	if err := first.Resume(); err != nil {
		s.Fatal(err)
	}
	return first, run
}

// worker prepares a process that runs activities: this program.
func (s *stage) worker(name string) *servers.Program {
	s.Helper()
	return s.program(name, os.Args[0], "WORKER="+name, "DATABASE_URL="+s.url, "TEMPORAL="+s.address,
		"NAMESPACE="+s.namespace)
}

func (s *stage) program(name, command string, env ...string) *servers.Program {
	s.Helper()
	p, err := servers.NewProgram(servers.ProgramOptions{
		Name: name, Command: []string{command}, Log: filepath.Join(s.TempDir(), name+".log"),
		Env: func() []string {
			return env
		},
	})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		if s.Failed() {
			s.Logf("%s: %s", name, p.LogTail(50))
		}
		_ = p.Kill()
		_ = p.Close()
	})
	return p
}

func (s *stage) start(p *servers.Program) {
	s.Helper()
	if err := p.Start(s.ctx); err != nil {
		s.Fatal(err)
	}
}

func (s *stage) exec(sql string) {
	s.Helper()
	if _, err := s.db.PgConn().Exec(s.ctx, sql).ReadAll(); err != nil {
		s.Fatal(err)
	}
}

// count returns how many bookings there are.
func (s *stage) count(condition string) (n int) {
	s.Helper()
	if err := s.db.QueryRow(s.ctx, "select count(*) from ledger where "+
		condition).Scan(&n); err != nil {
		s.Fatal(err)
	}
	return n
}

// waits is a moment of a loop that waits for what another process does.
func (s *stage) waits(forWhat string) {
	s.Helper()
	select {
	case <-s.ctx.Done():
		s.Fatal(forWhat)
	case <-time.After(5 * time.Millisecond):
	}
}
