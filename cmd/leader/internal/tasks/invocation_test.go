package tasks

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/cmd/leader/internal/taskfile"
	"github.com/ringfence/ringfence/internal/settings"
	"github.com/ringfence/ringfence/internal/test/must"
)

func TestJournalIsChosenByTheEnvironmentThenTheFileThenTheStores(t *testing.T) {
	const pg, cache = "postgres://u@a/x", "redis://b"
	named := "task: t\nresource: r\njournal: redis://file\nsteps: [{name: s, run: x}]\n"
	plain := strings.Replace(named, "journal: redis://file\n", "", 1)
	for _, c := range []struct{ journal, stores, file, want string }{
		{"redis://env", pg, named, "redis://env"},
		{"", pg, named, "redis://file"},
		{"", cache + "," + pg, plain, pg},
		{"", cache, plain, cache},
		{"", "", plain, "coordinator"},
		{"coordinator", pg, named, "coordinator"},
	} {
		var stores settings.URLs
		must.Succeed(t, stores.UnmarshalText([]byte(c.stores)))
		path := filepath.Join(t.TempDir(), "t.yaml")
		must.Succeed(t, os.WriteFile(path, []byte(c.file), 0o644))
		inv := &Invocation{Path: path, Setup: Setup{Journals: AllJournals, Settings: Settings{
			Coordinator: "zk://h", Journal: taskfile.Journal{URL: settings.URL(c.journal)}, Stores: stores,
		}}}
		must.Succeed(t, inv.Load(true))
		if u, _ := inv.journalAt(); u.Reveal() != c.want {
			t.Errorf("%+v: the journal is %s", c, u)
		}
	}
}
