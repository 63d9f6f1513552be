package sqlterms

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
)

const (
	lines = 100 // to book
	stop  = 20  // the line at which the first attempt is stopped, in its transaction
)

// queuePatience is for the programs of a queue, which take long to start, and for a queue to notice
// that a worker is lost.
const queuePatience = 4 * time.Minute

// queue runs the job of an example of a queue: to book lines into the table ledger, each in a
// transaction of its own, from where the attempt before has stopped.
type queue interface {
	submit()
	worker(name string) *servers.Program // is not started
	// returns once the queue would give the attempt of a stopped worker to another one
	lost()
	done() // returns once the queue knows that worker-2 has done the job
}

var queues = map[string]struct {
	has []string // runs if what it needs is there
	new func(*stage) queue
}{
	"celery": {[]string{"/usr/bin/python3", "-c", "import celery, psycopg, redis"}, newCelery},
	"quartz": {[]string{"test", "-e", "/usr/share/java/quartz2.jar", "-a", "-e",
		"/usr/share/java/HikariCP.jar"}, newQuartz},
}

// A worker is stopped in its attempt. Its queue lets the next worker begin another attempt, and the
// first one wakes up. It is refused, and each line is booked once.
func TestAttemptsOfQueuesInOtherLanguagesAreFenced(t *testing.T) {
	t.Parallel()
	for name, q := range queues {
		t.Run(name, func(t *testing.T) {
			needsDrivers(t, q.has)
			s := newQueueStage(t)
			j := newJob(s, q.new)
			first := j.stopsAndWakes()
			for !strings.Contains(first.LogTail(1000), "stale token") {
				s.waits("the first attempt is not refused: " + first.LogTail(50))
			}
			j.done()
			if n := j.count("line in (select line from ledger group by line having count(*) > 1)"); n > 0 {
				t.Errorf("%d bookings of lines that are booked twice", n)
			}
			if n := j.count("worker = 'worker-1' and n > (select min(n) from ledger where worker = " +
				"'worker-2')"); n > 0 {
				t.Errorf("%d bookings by the first attempt after the next one had begun", n)
			}
			if n := j.count("true"); n != lines {
				t.Errorf("%d bookings", n)
			}
		})
	}
}

// Without enter the same workers book lines twice, so the test above can fail.
func TestAttemptsOfQueuesInOtherLanguagesBookTwiceWithoutEnter(t *testing.T) {
	t.Parallel()
	for name, q := range queues {
		t.Run(name, func(t *testing.T) {
			needsDrivers(t, q.has)
			s := newQueueStage(t)
			s.exec(s.connect("postgres"), "create or replace function ringfence.enter(pass text) returns "+
				"void language sql as ''")
			j := newJob(s, q.new)
			j.stopsAndWakes()
			for j.count("line in (select line from ledger group by line having count(*) > 1)") == 0 {
				s.waits("no line is booked twice")
			}
		})
	}
}

// Celery does not say how often it has delivered a message again.
func TestRedeliveriesOfCeleryInOtherLanguagesLeadInTurn(t *testing.T) {
	t.Parallel()
	needsDrivers(t, queues["celery"].has)
	s := newQueueStage(t)
	folder, err := filepath.Abs("../../../examples/celery")
	must.Succeed(t, err)
	said := s.run([]string{"PYTHONPATH=" + folder, "PYTHONDONTWRITEBYTECODE=1", "DATABASE_URL=" +
		s.url("app")}, "/usr/bin/python3", "testdata/redelivered.py")
	if said != "done\n" {
		t.Errorf("it says %q", said)
	}
}

func newQueueStage(t *testing.T) *stage {
	s := newStage(t)
	ctx, cancel := context.WithTimeout(t.Context(), queuePatience)
	t.Cleanup(cancel)
	s.ctx = ctx
	return s
}

func needsDrivers(t *testing.T, has []string) {
	t.Helper()
	if os.Getenv("RINGFENCE_DRIVERS") != "required" {
		t.Skip("make test-drivers runs it")
	}
	if exec.CommandContext(t.Context(), has[0], has[1:]...).Run() != nil {
		t.Fatalf("%q has failed: make deps-drivers installs what is missing", has)
	}
}

// job is one that a queue has, and the database that it writes to.
type job struct {
	*stage
	queue
	counter *pgx.Conn
}

func newJob(s *stage, of func(*stage) queue) *job {
	j := &job{stage: s, counter: s.connect("postgres")}
	s.exec(j.counter, fmt.Sprintf(`create table ledger (n bigserial, merchant text, line int, worker text);
	    grant all on ledger, ledger_n_seq to app;
	    create function wait() returns trigger language plpgsql as 'begin perform pg_advisory_xact_lock_shared(7); return new; end';
	    create trigger wait before insert on ledger for each row when (new.line = %d) execute function wait()`, stop))
	j.queue = of(s)
	return j
}

// stopsAndWakes stops worker-1 in the middle of its attempt, waits until worker-2 has begun one,
// and wakes it.
func (j *job) stopsAndWakes() (first *servers.Program) {
	j.Helper()
	first, second := j.worker("worker-1"), j.worker("worker-2")
	j.exec(j.counter, "select pg_advisory_lock(7)")
	j.submit()
	j.start(first)
	for waits := false; !waits; {
		err := j.counter.QueryRow(j.ctx, "select exists (select from pg_stat_activity where datname = "+
			"$1 and wait_event = 'advisory')", j.name).
			Scan(&waits)
		must.Succeed(j, err)
		j.waits("the first attempt does not begin: " + first.LogTail(50))
	}
	must.Succeed(j, first.Pause())
	j.exec(j.counter, "select pg_advisory_unlock(7)")
	j.lost()
	j.start(second)
	for j.count("worker = 'worker-2'") == 0 {
		j.waits("the next attempt does not begin: " + second.LogTail(50))
	}
	must.Succeed(j, first.Resume())
	return first
}

func (j *job) start(p *servers.Program) {
	j.Helper()
	must.Succeed(j, p.Start(j.ctx))
}

// count returns how many bookings there are.
func (j *job) count(condition string) (n int) {
	j.Helper()
	if err := j.counter.QueryRow(j.ctx, "select count(*) from ledger where "+
		condition).Scan(&n); err != nil {
		j.Fatal(err)
	}
	return n
}
