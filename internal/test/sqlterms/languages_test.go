package sqlterms

import (
	"bufio"
	"context"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringfence/ringfence/internal/test/servers"
)

const (
	examples = "../../../examples/sql"
	modules  = "../endtoend/testdata/drivers/node_modules"
)

const spring = "/usr/share/java/postgresql.jar:/usr/share/java/spring3-jdbc.jar:/usr/share/java/spring3-core.jar:" +
	"/usr/share/java/spring3-beans.jar:/usr/share/java/spring3-transaction.jar:/usr/share/java/commons-logging.jar"

// languages are the programs of examples/sql. has runs if what a program needs is there.
var languages = []struct {
	file    string
	has     []string
	command []string
}{
	{"psycopg_.py", []string{"/usr/bin/python3", "-c", "import psycopg"}, []string{"/usr/bin/python3"}},
	{"sqlalchemy_.py", []string{"/usr/bin/python3", "-c", "import sqlalchemy, psycopg2"}, []string{"/usr/bin/python3"}},
	{"django_.py", []string{"/usr/bin/python3", "-c", "import django, psycopg2"}, []string{"/usr/bin/python3"}},
	{"Jdbc.java", []string{"test", "-e", "/usr/share/java/postgresql.jar"}, []string{"java", "-cp", "/usr/share/java/postgresql.jar"}},
	{"Spring.java", []string{"test", "-e", "/usr/share/java/spring3-jdbc.jar"}, []string{"java", "-cp", spring}},
	{"pg.js", []string{"test", "-e", modules + "/pg"}, []string{"node"}},
	{"pg.rb", []string{"ruby", "-e", "require 'pg'"}, []string{"ruby"}},
	{"activerecord.rb", []string{"ruby", "-e", "require 'active_record'"}, []string{"ruby"}},
	{"pdo.php", []string{"php", "-r", "exit(extension_loaded('pdo_pgsql') ? 0 : 1);"}, []string{"php"}},
	{"gosql/main.go", []string{"go", "version"}, []string{"go", "run"}},
}

// maxLines is how many lines of an application the fence may need.
const maxLines = 5

// Each program takes the resource, writes, and is in the middle of a transaction when another one takes it.
func TestProgramsInOtherLanguagesAreFenced(t *testing.T) {
	if testing.Short() {
		t.Skip("starts compilers and interpreters")
	}
	for _, l := range languages {
		t.Run(l.file, func(t *testing.T) {
			switch required := os.Getenv("RINGFENCE_DRIVERS") == "required"; {
			case !required && l.command[0] != "go":
				t.Skip("make test-drivers runs it")
			case required && exec.CommandContext(t.Context(), l.has[0], l.has[1:]...).Run() != nil:
				t.Fatalf("%q has failed: make deps-drivers installs what is missing", l.has)
			}
			text, err := os.ReadFile(filepath.Join(examples, l.file))
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(text), " fence\n"); n == 0 || n > maxLines {
				t.Errorf("the fence needs %d lines, %d are allowed", n, maxLines)
			}
			command := append(l.command, filepath.Join(examples, l.file))
			if l.command[0] == "go" { // once for all runs
				built := filepath.Join(t.TempDir(), "program")
				if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", built, filepath.Dir(command[2])).CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
				command = []string{built}
			}
			for _, pooled := range []bool{false, true} {
				for _, level := range []string{"read committed", "repeatable read", "serializable"} {
					name := "direct/" + level
					if pooled {
						name = "PgBouncer/" + level
					}
					t.Run(name, func(t *testing.T) { fenced(t, command, level, pooled) })
				}
			}
		})
	}
}

func fenced(t *testing.T, command []string, level string, pooled bool) {
	s := newStage(t)
	admin := s.connect("postgres")
	s.exec(admin, "create table ledger (line text); grant all on ledger to app")
	at := s.url("app")
	if pooled {
		b, err := servers.StartPgBouncer(s.ctx, s.pg, servers.PgBouncerOptions{User: "app", Mode: "transaction"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = b.Close() })
		at = b.URL("app", s.name)
	}
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(s.ctx, 50*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], append(command[1:], "host-1", "1")...)
	cmd.Env = append(os.Environ(), "PGHOST="+u.Hostname(), "PGPORT="+u.Port(), "PGUSER=app", "PGDATABASE="+s.name, "PGSSLMODE=disable",
		"LEVEL="+level, "NODE_PATH="+modules)
	cmd.Stderr = t.Output()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := bufio.NewScanner(out)
	hears := func(want string) {
		t.Helper()
		if !said.Scan() || said.Text() != want {
			rest, _ := io.ReadAll(out)
			t.Fatalf("it says %q, not %q; then %q", said.Text(), want, rest)
		}
	}
	hears("wrote")
	hears("inside")
	pool, err := pgxpool.New(ctx, s.url("app"))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	second := s.ready(pool, "take('orders', 'host-2', 2)")
	if _, err := in.Write([]byte("go on\n")); err != nil {
		t.Fatal(err)
	}
	hears("ended")
	hears("refused")
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if err := s.writes(s.connect("app"), second.Pass); err != nil {
		t.Errorf("the newer holder is refused: %v", err)
	}
	var lines int
	if err := admin.QueryRow(ctx, "select count(*) from ledger").Scan(&lines); err != nil || lines != 1 {
		t.Errorf("%d lines, %v", lines, err)
	}
}
