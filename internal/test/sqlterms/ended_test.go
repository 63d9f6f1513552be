package sqlterms

import (
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// ends are the places where a take-over meets a transaction.
var ends = []struct {
	name string
	mode string // of PgBouncer; empty: none
	slow bool   // the transaction is one statement, which runs when the take-over comes
}{
	{"between two statements, direct", "", false},
	{"between two statements, through PgBouncer in transaction mode", "transaction", false},
	{"during a statement, direct", "", true},
	{"during a statement, through PgBouncer in transaction mode", "transaction", true},
	{"during a statement, through PgBouncer in statement mode", "statement", true},
}

// shown has what each driver shows, in the order of ends. docs/sql.md has the same table.
var shown = map[string]struct {
	has     []string
	command []string
	shows   [5]string
}{
	"psycopg_.py": {[]string{"/usr/bin/python3", "-c", "import psycopg"},
		[]string{"/usr/bin/python3"}, [5]string{"None OperationalError", "None OperationalError",
			"None OperationalError", "None OperationalError", "None OperationalError"}},
	"Jdbc.java": {[]string{"test", "-e", "/usr/share/java/postgresql.jar"},
		[]string{"java", "-cp", "/usr/share/java/postgresql.jar"}, [5]string{"57P01 PSQLException",
			"57P01 PSQLException", "57P01 PSQLException", "57P01 PSQLException", "57P01 PSQLException"}},
	"pg.js": {[]string{"test", "-e", modules + "/pg"}, []string{"node"},
		[5]string{"57P01 DatabaseError, by the event error", "57P01 DatabaseError, by the event error",
			"57P01 DatabaseError", "57P01 DatabaseError", "57P01 DatabaseError"}},
	"pg.rb": {[]string{"ruby", "-e", "require 'pg'"}, []string{"ruby"},
		[5]string{"none PG::ConnectionBad", "none PG::ConnectionBad", "none PG::ConnectionBad", "none " +
			"PG::ConnectionBad", "none PG::ConnectionBad"}},
	"pdo.php": {[]string{"php", "-r", "exit(extension_loaded('pdo_pgsql') ? 0 : 1);"},
		[]string{"php"}, [5]string{"HY000 PDOException", "HY000 PDOException", "HY000 PDOException",
			"HY000 PDOException", "HY000 PDOException"}},
	"pgx_/main.go": {[]string{"go", "version"}, []string{"go", "run"},
		[5]string{"57P01 *pgconn.PgError", "57P01 *pgconn.PgError", "57P01 *pgconn.PgError", "57P01 " +
			"*pgconn.PgError", "57P01 *pgconn.PgError"}},
}

// A take-over ends a transaction. Its program sees an error of the connection, and RF001 when it
// tries again.
func TestWhatProgramsInOtherLanguagesSeeOfATakeOver(t *testing.T) {
	t.Parallel()
	for file, d := range shown {
		t.Run(file, func(t *testing.T) {
			if d.command[0] != "go" {
				needsDrivers(t, d.has)
			}
			for i, end := range ends {
				t.Run(end.name, func(t *testing.T) {
					s := newQueueStage(t)
					p := s.startEnded(append(d.command, filepath.Join("testdata", "ended", file)), end.mode,
						end.slow)
					s.ready(s.connect("app"), "take('orders', 'host-2', 2)")
					if !end.slow { // otherwise it waits for the server, and may have ended
						p.goOn()
					}
					if got, _, _ := strings.Cut(p.says(), ": "); got != d.shows[i] {
						t.Errorf("it sees %q, not %q", got, d.shows[i])
					}
					if got := p.says(); !strings.HasPrefix(got, "RF001 ") {
						t.Errorf("it tries again, and sees %q", got)
					}
					var n int
					if err := s.connect("postgres").QueryRow(s.ctx,
						"select count(*) from ledger").Scan(&n); err != nil || n > 0 {
						t.Errorf("%d late writes, %v", n, err)
					}
				})
			}
		})
	}
}

// startEnded starts a program as host-1, and returns when it is in its transaction.
func (s *stage) startEnded(command []string, mode string, slow bool) *program {
	s.Helper()
	admin := s.connect("postgres")
	s.exec(admin, "create table ledger (line text); grant all on ledger to app")
	first := s.ready(s.connect("app"), "take('orders', 'host-1', 1)")
	at := s.url("app")
	if mode != "" {
		at = s.pooler(mode)
	}
	u, err := url.Parse(at)
	if err != nil {
		s.Fatal(err)
	}
	var statement string
	if slow {
		statement = "do $$ begin perform ringfence.enter('" + *first.Pass + "'); insert into ledger " +
			"values ('late'); perform pg_sleep(600); end $$"
	}
	p := s.launch(exec.CommandContext(s.ctx, command[0], command[1:]...), "PGHOST="+u.Hostname(),
		"PGPORT="+u.Port(), "PGUSER=app",
		"PGDATABASE="+s.name, "PGSSLMODE=disable", "NODE_PATH="+modules, "PASS="+*first.Pass,
		"STATEMENT="+statement)
	if !slow {
		p.hears("inside")
		return p
	}
	for inside := false; !inside; s.waits("the statement does not run") {
		if err := admin.QueryRow(s.ctx, "select exists (select from pg_stat_activity where datname = "+
			"$1 and wait_event = 'PgSleep')", s.name).
			Scan(&inside); err != nil {
			s.Fatal(err)
		}
	}
	return p
}
