package postgres

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// disguises prepare a COMMIT so that somebody who keeps a list of names does not know it by the name
// that is returned.
var disguises = map[string]func(w *readerWire) string{
	"an unnamed statement whose later Parse the server has skipped": func(w *readerWire) string {
		w.Send(&pgproto3.Parse{Query: "commit"})
		w.executes("there is no such statement")
		w.Send(&pgproto3.Parse{Query: "select 1"})
		w.Send(&pgproto3.Sync{})
		w.codes()
		return ""
	},
	"a name in another encoding": func(w *readerWire) string {
		w.Send(&pgproto3.Query{String: "set client_encoding = 'LATIN1'"})
		w.codes()
		w.prepares("\xe9", "commit")
		w.Send(&pgproto3.Query{String: "set client_encoding = 'UTF8'"})
		w.codes()
		return "\u00e9"
	},
	"a name with the same first 63 bytes": func(w *readerWire) string {
		w.prepares(sixtyThree+"x", "commit")
		return sixtyThree + "y"
	},
}

func TestACommitInDisguiseLetsNothingBeWrittenBehindIt(t *testing.T) {
	g := reading(t)
	before := g.state()
	for name, prepare := range disguises {
		w := g.readerWire(nil)
		statement := prepare(w)
		w.runs("off", "select switches()")
		w.executes(statement)
		w.runs("write", "select writes()")
		w.Send(&pgproto3.Sync{})
		codes, ready := w.codes()
		if fmt.Sprint(codes) != "[RF002]" || ready {
			t.Errorf("%s: %v, ready %v", name, codes, ready)
		}
		if after := g.state(); after != before {
			t.Errorf("%s has changed the database: %s, before %s", name, after, before)
			before = after
		}
	}
}

// In the Turkish locale of LATIN5 the letter \xdd is a capital I with a dot. Postgres folds it to an
// i in ASCII, in names but not in keywords.
func TestALetterThatTheServerFoldsHidesNoNameOfASetting(t *testing.T) {
	pg := serverstest.Postgres(t, servers.PostgresOptions{Locales: turkish(t)})
	sql(t, pg.URL("postgres", "postgres"), `create database turkish template template0 encoding 'LATIN5'
	    lc_collate 'C' lc_ctype 'tr_TR.ISO8859-9'`)
	database := prepared(t, pg, "turkish")
	g := readingIn(t, guardBefore(t, pg, database, setup{Options: Options{ReadOnly: true}}))
	before := g.state()
	for _, text := range []string{
		"set transact\xddon_read_only = off", "set local transact\xddon_read_only = off",
		"set session transact\xddon_read_only to default", "reset transact\xddon_read_only",
		"set session characteristics as transact\xddon read write",
	} {
		w := g.readerWire(map[string]string{"client_encoding": "LATIN5"})
		for _, text := range []string{"begin", text, "select writes()", "commit"} {
			w.Send(&pgproto3.Query{String: text})
			codes, _ := w.codes()
			if strings.Contains(text, "\xdd") && fmt.Sprint(codes) != "[RF002]" {
				t.Errorf("%q: %v", text, codes)
			}
		}
		if after := g.state(); after != before {
			t.Errorf("%q has changed the database: %s, before %s", text, after, before)
			before = after
		}
	}
	w := g.readerWire(map[string]string{"client_encoding": "LATIN5"})
	w.Send(&pgproto3.Query{String: "set application_name = '\xdd\xfd'; select '\xdd' as \xddl"})
	if codes, ready := w.codes(); len(codes) > 0 || !ready {
		t.Errorf("other text with such letters: %v", codes)
	}
}

// turkish compiles the locale, and returns the directory with it.
func turkish(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "rf-locale-") // the server's account can enter it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	compile := exec.Command("localedef", "-i", "tr_TR", "-f", "ISO-8859-9", dir+"/tr_TR.ISO8859-9")
	out, err := compile.CombinedOutput()
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Skipf("the locale cannot be compiled (apt-get install locales): %v\n%s", err, out)
	}
	return dir
}
