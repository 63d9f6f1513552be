package endtoend

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	servingTime = 8 * time.Minute // bounds the test of all drivers
	driverTime  = time.Minute     // bounds that of one
)

// missing skips a test for lack of a driver. `make test-drivers` installs all of them and demands
// them.
func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("RINGFENCE_DRIVERS") == "required" {
		t.Fatalf("%s is not installed: make deps-drivers", what)
	}
	t.Skipf("%s is not installed: make test-drivers installs it", what)
}

// python returns a Python that has a module, or nil.
func python(t *testing.T, module string) []string {
	for _, p := range []string{"/usr/bin/python3", "python3"} {
		if exec.CommandContext(t.Context(), p, "-c", "import "+module).Run() == nil {
			return []string{p}
		}
	}
	return nil
}

// node returns Node if it finds a module in testdata/drivers, or nil.
func node(_ *testing.T, module string) []string {
	program, err := exec.LookPath("node")
	if _, absent := os.Stat(filepath.Join("testdata", "drivers", "node_modules",
		module)); err != nil || absent != nil {
		return nil
	}
	return []string{program}
}

// jdbc returns Java with the driver, which runs a source file, or nil.
func jdbc(_ *testing.T) []string {
	const driver = "/usr/share/java/postgresql.jar"
	java, err := exec.LookPath("java")
	if _, absent := os.Stat(driver); err != nil || absent != nil {
		return nil
	}
	if _, err := exec.LookPath("javac"); err != nil {
		return nil // a runtime without a compiler
	}
	return []string{java, "-cp", driver}
}

// tool runs a program of a database with these settings, and returns what it printed.
func (e *encrypted) tool(
	t *testing.T, env []string, stdin string, name string, args ...string,
) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(e.ctx, driverTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(append(os.Environ(), "PGHOST=localhost", "PGPORT="+e.postgres,
		"PGDATABASE=postgres", "PGPASSWORD=secret",
		"PGSSLMODE=verify-full", "PGSSLROOTCERT="+e.authority.File, "REDISCLI_AUTH=secret"), env...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (e *encrypted) psql(t *testing.T) {
	leader := []string{"PGUSER=app", "PGOPTIONS=-c fence.psql=5"}
	out, err := e.tool(t, append(leader, "PGCHANNELBINDING=require"), "", "psql", "-XAtc",
		"insert into ledger (token, note) values (5, 'psql') returning note",
		"-c", "select ssl from pg_stat_ssl where pid = pg_backend_pid()")
	if err != nil || out != "psql\nINSERT 0 1\nt\n" {
		t.Errorf("%v: %s", err, out)
	}
	e.lead(t, e.postgres, "psql")
	out, err = e.tool(t, append(leader, "PGCHANNELBINDING=require"), "", "psql", "-Xc", "select 1")
	if err == nil || !strings.Contains(out, "stale token: 5 is older than the mark 6") {
		t.Errorf("a deposed leader: %v: %s", err, out)
	}
}

// dump copies a table out and in again, both through the guard.
func (e *encrypted) dump(t *testing.T) {
	archive := filepath.Join(t.TempDir(), "kept.dump")
	keeper := []string{"PGUSER=keeper", "PGOPTIONS=-c fence.dump=5"}
	if out, err := e.tool(t, keeper, "", "pg_dump", "-Fc", "-t", "kept", "-f", archive); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	e.stack.sql("drop table kept")
	if out, err := e.tool(t, keeper, "", "pg_restore", "-d", "postgres", archive); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if kept := e.column("select note from kept order by note"); strings.Join(kept, " ") != "two é" {
		t.Errorf("restored: %q", kept)
	}
	e.lead(t, e.postgres, "dump")
	if out, err := e.tool(t, keeper, "", "pg_restore", "-a", "-d", "postgres", archive); err == nil {
		t.Errorf("a deposed session has restored: %s", out)
	}
	if kept := e.column("select note from kept"); len(kept) != 2 {
		t.Errorf("a deposed session has left %q", kept)
	}
}

func (e *encrypted) redisCLI(t *testing.T) {
	args := []string{"--tls", "--cacert", e.authority.File, "-h", "localhost", "-p", e.redis, "--user",
		"app"}
	out, err := e.tool(t, nil, "FENCE redis_cli 5\nRPUSH ledger:cli é\nLLEN ledger:cli\n", "redis-cli",
		args...)
	if err != nil || !strings.HasSuffix(out, "OK\n1\n1\n") {
		t.Errorf("%v: %q", err, out)
	}
	e.lead(t, e.redis, "redis_cli")
	out, _ = e.tool(t, nil, "FENCE redis_cli 5\nRPUSH ledger:cli late\n", "redis-cli", args...)
	if !strings.Contains(out, "STALETOKEN") || len(e.list("ledger:cli")) != 1 {
		t.Errorf("a deposed leader: %q", out)
	}
}
