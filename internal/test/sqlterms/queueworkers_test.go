package sqlterms

import (
	"archive/zip"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

const visibility = time.Second // after that Celery's broker gives a message to another worker

// celery is a Redis with workers of examples/celery.
type celery struct {
	*stage
	broker *redis.Client
	env    []string
	task   string
}

func newCelery(s *stage) queue {
	server := serverstest.Redis(s, servers.RedisOptions{})
	q := &celery{stage: s, broker: redis.NewClient(&redis.Options{Addr: server.Addr()})}
	s.Cleanup(func() { _ = q.broker.Close() })
	folder, err := filepath.Abs("../../../examples/celery")
	must.Succeed(s, err)
	q.env = []string{
		"PYTHONPATH=" + folder, "PYTHONDONTWRITEBYTECODE=1", "BROKER=" + server.URL(), "DATABASE_URL=" +
			s.url("app"),
		fmt.Sprintf("VISIBILITY_TIMEOUT=%d", visibility/time.Second),
	}
	return q
}

func (q *celery) submit() {
	q.task = strings.TrimSpace(q.run(q.env, "/usr/bin/python3", "-m", "celery", "-A", "tasks", "call",
		"tasks.book", "--args", fmt.Sprintf(`["m1", %d]`, lines)))
}

func (q *celery) worker(name string) *servers.Program {
	return q.program(name, q.env, "/usr/bin/python3", "-m", "celery", "-A", "tasks", "worker",
		"--concurrency", "1",
		"--hostname", name+"@test", "--loglevel", "INFO", "--without-gossip", "--without-mingle",
		"--without-heartbeat")
}

// lost waits for the visibility timeout of the message. A worker looks for such messages when it
// starts, and then every 100 s.
func (q *celery) lost() {
	for {
		now, err := q.broker.Time(q.ctx).Result()
		must.Succeed(q, err)
		latest := fmt.Sprint(now.Add(-visibility).Unix())
		if n, err := q.broker.ZCount(q.ctx, "unacked_index", "-inf", latest).Result(); err != nil ||
			n > 0 {
			must.Succeed(q, err)
			return
		}
		q.waits("the message is not lost")
	}
}

func (q *celery) done() {
	for {
		result, err := q.broker.Get(q.ctx, "celery-task-meta-"+q.task).Result()
		if err == nil && strings.Contains(result, `"status": "SUCCESS", "result": "worker-2"`) {
			return
		}
		q.waits(fmt.Sprintf("the task is not done: %s, %v", result, err))
	}
}

// quartz is a cluster of workers of examples/quartz.
type quartz struct {
	*stage
	admin   *pgx.Conn
	env     []string
	classes string
}

const quartzJars = "/usr/share/java/quartz2.jar:/usr/share/java/postgresql.jar:" +
	"/usr/share/java/HikariCP.jar:/usr/share/java/slf4j-api.jar:/usr/share/java/slf4j-simple.jar"

func newQuartz(s *stage) queue {
	const folder = "../../../examples/quartz"
	u, err := url.Parse(s.url("app"))
	must.Succeed(s, err)
	q := &quartz{stage: s, admin: s.connect("postgres"), classes: s.TempDir()}
	q.env = []string{"JDBC_URL=jdbc:postgresql://" + u.Host + "/" + s.name +
		"?user=app&sslmode=disable"}
	sources, err := filepath.Glob(folder + "/*.java")
	if err != nil || len(sources) == 0 {
		s.Fatal(sources, err)
	}
	q.run(nil, "javac", append([]string{"-cp", quartzJars, "-d", q.classes}, sources...)...)
	properties, err := os.ReadFile(folder + "/quartz.properties")
	if err == nil {
		err = os.WriteFile(filepath.Join(q.classes, "quartz.properties"), properties, 0o644)
	}
	must.Succeed(s, err)
	s.exec(q.admin, q.tables()+"; grant all on all tables in schema public to app")
	return q
}

// tables returns the SQL that makes Quartz's tables.
func (q *quartz) tables() string {
	jar, err := zip.OpenReader("/usr/share/java/quartz2.jar")
	must.Succeed(q, err)
	defer jar.Close()
	f, err := jar.Open("org/quartz/impl/jdbcjobstore/tables_postgres.sql")
	must.Succeed(q, err)
	defer f.Close()
	text, err := io.ReadAll(f)
	must.Succeed(q, err)
	return string(text)
}

func (q *quartz) submit() {
	q.run(append([]string{"WORKER=worker-0"}, q.env...), "java", "-cp", q.classes+":"+quartzJars,
		"Worker", fmt.Sprint(lines))
}

func (q *quartz) worker(name string) *servers.Program {
	return q.program(name, q.env, "java", "-cp", q.classes+":"+quartzJars, "Worker")
}

// lost does not wait: worker-2 waits until worker-1 has missed its check-ins.
func (q *quartz) lost() {}

func (q *quartz) done() {
	for {
		var left int
		if err := q.admin.QueryRow(q.ctx,
			"select count(*) from qrtz_job_details").Scan(&left); err != nil {
			q.Fatal(err)
		}
		if left == 0 {
			return
		}
		q.waits("the job is not done")
	}
}

// program prepares a worker.
func (s *stage) program(name string, env []string, command ...string) *servers.Program {
	s.Helper()
	return serverstest.Program(s.TB, name, append([]string{"WORKER=" + name}, env...), command...)
}

// run runs a program to its end, and returns what it has said.
func (s *stage) run(env []string, name string, args ...string) string {
	s.Helper()
	cmd := exec.CommandContext(s.ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = s.Output()
	out, err := cmd.Output()
	if err != nil {
		s.Fatalf("%s %q: %v: %s", name, args, err, out)
	}
	return string(out)
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
