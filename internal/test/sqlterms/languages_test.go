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

	"github.com/ringfence/ringfence/internal/test/must"
)

const (
	examples = "../../../examples/sql"
	modules  = "../endtoend/testdata/drivers/node_modules"
)

const spring = "/usr/share/java/postgresql.jar:/usr/share/java/spring3-jdbc.jar:" +
	"/usr/share/java/spring3-core.jar:/usr/share/java/spring3-beans.jar:" +
	"/usr/share/java/spring3-transaction.jar:/usr/share/java/commons-logging.jar"

// languages are the programs of examples/sql. has runs if what a program needs is there.
var languages = []struct {
	file    string
	has     []string
	command []string
}{
	{"psycopg_.py", []string{"/usr/bin/python3", "-c", "import psycopg"},
		[]string{"/usr/bin/python3"}},
	{"sqlalchemy_.py", []string{"/usr/bin/python3", "-c", "import sqlalchemy, psycopg2"},
		[]string{"/usr/bin/python3"}},
	{"django_.py", []string{"/usr/bin/python3", "-c", "import django, psycopg2"},
		[]string{"/usr/bin/python3"}},
	{"Jdbc.java", []string{"test", "-e", "/usr/share/java/postgresql.jar"},
		[]string{"java", "-cp", "/usr/share/java/postgresql.jar"}},
	{"Spring.java", []string{"test", "-e", "/usr/share/java/spring3-jdbc.jar"},
		[]string{"java", "-cp", spring}},
	{"pg.js", []string{"test", "-e", modules + "/pg"}, []string{"node"}},
	{"pg.rb", []string{"ruby", "-e", "require 'pg'"}, []string{"ruby"}},
	{"activerecord.rb", []string{"ruby", "-e", "require 'active_record'"}, []string{"ruby"}},
	{"pdo.php", []string{"php", "-r", "exit(extension_loaded('pdo_pgsql') ? 0 : 1);"},
		[]string{"php"}},
	{"gosql/main.go", []string{"go", "version"}, []string{"go", "run"}},
}

// maxLines is how many lines of an application the fence may need.
const maxLines = 5

// Each program takes the resource, writes, and is in the middle of a transaction when another one
// takes it.
func TestProgramsInOtherLanguagesAreFenced(t *testing.T) {
	t.Parallel()
	eachLanguage(t, func(t *testing.T, command []string) {
		for _, pooled := range []bool{false, true} {
			for _, level := range []string{"read committed", "repeatable read", "serializable"} {
				t.Run(through(pooled)+"/"+level, func(t *testing.T) { fenced(t, command, level, pooled) })
			}
		}
	})
}

func through(pooled bool) string {
	if pooled {
		return "PgBouncer"
	}
	return "direct"
}

// eachLanguage runs a test with the command of each program that can run here.
func eachLanguage(t *testing.T, test func(t *testing.T, command []string)) {
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
			must.Succeed(t, err)
			if n := strings.Count(string(text), " fence\n"); n == 0 || n > maxLines {
				t.Errorf("the fence needs %d lines, %d are allowed", n, maxLines)
			}
			command := append(l.command, filepath.Join(examples, l.file))
			if l.command[0] == "go" { // once for all runs
				built := filepath.Join(t.TempDir(), "program")
				if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", built,
					filepath.Dir(command[2])).CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
				command = []string{built}
			}
			test(t, command)
		})
	}
}

func fenced(t *testing.T, command []string, level string, pooled bool) {
	s := newStage(t)
	p := s.start(command, level, s.address(pooled))
	p.hears("wrote")
	p.hears("inside")
	second := s.ready(s.connect("app"), "take('orders', 'host-2', 2)")
	p.goOn()
	p.hears("ended")
	p.hears("refused")
	must.Report(t, p.cmd.Wait())
	if err := s.writes(s.connect("app"), second.Pass); err != nil {
		t.Errorf("the newer holder is refused: %v", err)
	}
	var lines int
	if err := s.connect("postgres").QueryRow(s.ctx,
		"select count(*) from ledger").Scan(&lines); err != nil || lines != 1 {
		t.Errorf("%d lines, %v", lines, err)
	}
}

// address returns the URL of the role app, straight or through PgBouncer.
func (s *stage) address(pooled bool) string {
	s.Helper()
	if !pooled {
		return s.url("app")
	}
	return s.pooler("transaction")
}

// program is one of examples/sql that runs as host-1, with its first attempt.
type program struct {
	*stage
	cmd  *exec.Cmd
	in   io.Writer
	out  io.Reader
	said *bufio.Scanner
}

func (s *stage) start(command []string, level, at string) *program {
	s.Helper()
	s.exec(s.connect("postgres"), "create table if not exists ledger (line text); grant all on "+
		"ledger to app")
	u, err := url.Parse(at)
	must.Succeed(s, err)
	ctx, cancel := context.WithTimeout(s.ctx, 50*time.Second)
	s.Cleanup(cancel)
	return s.launch(exec.CommandContext(ctx, command[0], append(command[1:], "host-1", "1")...),
		"PGHOST="+u.Hostname(), "PGPORT="+u.Port(),
		"PGUSER=app", "PGDATABASE="+s.name, "PGSSLMODE=disable", "LEVEL="+level, "NODE_PATH="+modules)
}

// launch starts a command that the test talks to.
func (s *stage) launch(cmd *exec.Cmd, env ...string) *program {
	s.Helper()
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = s.Output()
	in, err := cmd.StdinPipe()
	must.Succeed(s, err)
	out, err := cmd.StdoutPipe()
	must.Succeed(s, err)
	must.Succeed(s, cmd.Start())
	s.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return &program{s, cmd, in, out, bufio.NewScanner(out)}
}

func (p *program) says() string {
	p.said.Scan()
	return p.said.Text()
}

func (p *program) hears(want string) {
	p.Helper()
	if got := p.says(); got != want {
		rest, _ := io.ReadAll(p.out)
		p.Fatalf("it says %q, not %q; then %q", got, want, rest)
	}
}

func (p *program) goOn() {
	p.Helper()
	_, err := p.in.Write([]byte("go on\n"))
	must.Succeed(p, err)
}
