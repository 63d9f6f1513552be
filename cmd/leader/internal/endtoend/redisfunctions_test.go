package endtoend

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/internal/marks/redismarks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// redisWorkers are the programs in examples/redis. Each takes orders as attempt 1, writes as fast
// as it can, and ends with what Redis tells it.
func redisWorkers(t *testing.T) map[string][]string {
	return map[string][]string{
		"worker.py": python(t, "redis"), "worker_before_7.py": python(t, "redis"),
		"worker.js": node(t, "ioredis"),
	}
}

func TestDriversCallTheFunctionsOfRedis(t *testing.T) {
	t.Parallel()
	for name, interpreter := range redisWorkers(t) {
		t.Run(name, func(t *testing.T) {
			w := startWorker(t, interpreter, name)
			w.takeOver()
			if said := w.wait(); !strings.HasPrefix(said, "STALETOKEN ") {
				t.Errorf("the first attempt ended with %q", said)
			}
			if late := w.late(); late != 0 {
				t.Errorf("%d stale writes", late)
			}
		})
	}
}

// Without the check the same programs write behind the next attempt, so the test above can fail.
func TestDriversWriteStaleDataWithoutTheCheck(t *testing.T) {
	t.Parallel()
	for name, interpreter := range redisWorkers(t) {
		if name == "worker_before_7.py" {
			continue // it brings the script along
		}
		t.Run(name, func(t *testing.T) {
			w := startWorker(t, interpreter, name)
			const check = "if shut then return refusals[shut](s, token, issuer) end"
			if strings.Count(redismarks.Library(), check) != 1 {
				t.Fatal("the library has another check")
			}
			unfenced := strings.Replace(redismarks.Library(), check, "", 1)
			must.Succeed(t, w.db.Do(w.ctx, "FUNCTION", "LOAD", "REPLACE", unfenced).Err())
			w.takeOver()
			for w.late() == 0 {
				if w.ctx.Err() != nil {
					t.Fatal("no stale write")
				}
			}
		})
	}
}

// worker is a program that runs as attempt 1, and the Redis that it writes to.
type worker struct {
	t       *testing.T
	ctx     context.Context
	db      *redis.Client
	command *exec.Cmd
	out     strings.Builder
}

// startWorker starts a program, and waits until it has written something.
func startWorker(t *testing.T, interpreter []string, name string) *worker {
	t.Helper()
	if interpreter == nil {
		missing(t, name)
	}
	server := serverstest.Redis(t, servers.RedisOptions{})
	ctx, cancel := context.WithTimeout(t.Context(), driverTime)
	w := &worker{
		t: t, ctx: ctx, db: redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: driverTime}),
	}
	must.Succeed(t, redismarks.Install(ctx, server.URL()))
	if lacks, err := redismarks.LoadFunctions(ctx, server.URL()); lacks != "" || err != nil {
		t.Fatal(lacks, err)
	}
	modules, err := filepath.Abs(filepath.Join("testdata", "drivers", "node_modules"))
	must.Succeed(t, err)
	_, port, _ := strings.Cut(server.Addr(), ":")
	w.command = exec.CommandContext(ctx, interpreter[0],
		filepath.Join("..", "..", "..", "..", "examples", "redis", name), "1")
	w.command.Env = append(os.Environ(), "REDIS_PORT="+port, "NODE_PATH="+modules)
	w.command.Stdout, w.command.Stderr = &w.out, &w.out
	must.Succeed(t, w.command.Start())
	t.Cleanup(func() {
		cancel() // kills the program
		_ = w.command.Wait()
		_ = w.db.Close()
	})
	for w.written("1") < 50 {
		if ctx.Err() != nil {
			t.Fatalf("it writes nothing: %s", w.wait())
		}
	}
	return w
}

// takeOver takes orders as attempt 2, and writes once.
func (w *worker) takeOver() {
	w.t.Helper()
	pass, err := w.db.FCall(w.ctx, "ringfence_take", nil, "orders", "worker-2", 2).Text()
	if err == nil {
		err = w.db.FCall(w.ctx, "ringfence_exec", nil, pass, "RPUSH", "written", "2").Err()
	}
	must.Succeed(w.t, err)
}

// wait returns what the program said until it ended.
func (w *worker) wait() string {
	_ = w.command.Wait()
	return w.out.String()
}

// list returns what was written.
func (w *worker) list() []string { return w.db.LRange(w.ctx, "written", 0, -1).Val() }

// written counts the writes of an attempt.
func (w *worker) written(attempt string) (n int) {
	for _, by := range w.list() {
		if by == attempt {
			n++
		}
	}
	return n
}

// late counts the writes of attempt 1 behind that of attempt 2.
func (w *worker) late() (n int) {
	behind := false
	for _, by := range w.list() {
		behind = behind || by == "2"
		if behind && by == "1" {
			n++
		}
	}
	return n
}
