package taskfile

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/unfinished"
	"github.com/ringfence/ringfence/internal/test/must"
)

func loaded(t *testing.T, name string) *File {
	t.Helper()
	f, err := Load(filepath.Join(tasks, "good", name), lookup)
	must.Succeed(t, err)
	return f
}

func TestEveryKeyIsRead(t *testing.T) {
	f := loaded(t, "everything.yaml")
	if f.Task != "settlement-2026-11-21" || f.Resource != "settlement" ||
		f.Journal.URL != "postgres://db.internal:5432/shop" ||
		f.Rounds != checkpoint.Forever || f.Every != 10*time.Second || f.Retry.Attempts != 3 {
		t.Errorf("got %+v", f)
	}
	var names []string
	for _, s := range f.Steps {
		names = append(names, s.Name)
	}
	want := []string{"book", "totals", "send", "call", "count", "tell"}
	if !slices.Equal(names, want) {
		t.Errorf("got %v", names)
	}
	book, totals, send, call := f.Steps[0], f.Steps[1], f.Steps[2], f.Steps[3]
	if book.Timeout != 90*time.Second || !strings.Contains(book.SQL.Text, "rollback to savepoint a") ||
		book.SQL.LineAt(strings.Index(book.SQL.Text, "rollback")) != 23 {
		t.Errorf("got %+v, rollback in line %d", book,
			book.SQL.LineAt(strings.Index(book.SQL.Text, "rollback")))
	}
	if !strings.HasPrefix(totals.SQL.Text, "create or replace function") ||
		totals.SQL.LineAt(len(totals.SQL.Text)-1) != 5 {
		t.Errorf("got %+v", totals.SQL)
	}
	if send.Run != "./send.sh" || send.Ask != "./was-it-sent.sh" ||
		send.Unfinished != unfinished.RunAgain || send.Retry == nil || send.Retry.Attempts != 3 {
		t.Errorf("got %+v", send)
	}
	if call.Unfinished != unfinished.Stop || call.Retry != nil || call.At.Line != 32 {
		t.Errorf("got %+v", call)
	}
}

func TestStateKeepsItsSpelling(t *testing.T) {
	f := loaded(t, "everything.yaml")
	want := `{"batch":500,"big":12345678901234567890123,"day":"2026-11-21",` +
		`"hex":31,"list":[1,{"a":"b"}],"none":null,"on":true,"price":1.50}`
	if string(f.State) != want {
		t.Errorf("got  %s\nwant %s", f.State, want)
	}
}

func TestWordsOfRedisCommandsKeepTheirSpelling(t *testing.T) {
	f := loaded(t, "everything.yaml")
	if got := f.Steps[4].Redis; len(got) != 1 || !slices.Equal(got[0], []any{"INCRBY", "sent", "10"}) {
		t.Errorf("got %q", got)
	}
	got := f.Steps[5].Redis
	if len(got) != 2 || !slices.Equal(got[0], []any{"SET", "last", "007"}) ||
		!slices.Equal(got[1], []any{"PUBLISH", "done", ""}) {
		t.Errorf("got %q", got)
	}
}

func TestMissingKeysHaveADefault(t *testing.T) {
	f := loaded(t, "smallest.yaml")
	if f.Rounds != 1 || string(f.State) != "{}" || f.Changed != nil || f.Retry.Attempts != 0 ||
		f.Journal.URL != "" || f.Every != 0 {
		t.Errorf("got %+v", f)
	}
}

func TestRenamedStepsAreFound(t *testing.T) {
	f := loaded(t, "everything.yaml")
	saved := checkpoint.Checkpoint{Steps: []string{"post", "mail"}, Step: 1}
	cp, err := f.Changed(saved, []string{"book", "totals", "send"})
	if err != nil || cp.Step != 2 {
		t.Errorf("got %+v, %v", cp, err)
	}
}

func TestChangedAcceptsOrRestarts(t *testing.T) {
	saved := checkpoint.Checkpoint{Run: 1, Round: 1, Steps: []string{"a", "s"}, Step: 1}
	for word, want := range map[string]int64{"accept": 1, "restart": 2} {
		f, err := parse("task: t\nresource: r\nchanged: " + word + "\nsteps: [{name: s, run: x}]\n")
		must.Succeed(t, err)
		if cp, err := f.Changed(saved, []string{"s"}); err != nil || cp.Run != want || cp.Step != 0 {
			t.Errorf("%s: got %+v, %v", word, cp, err)
		}
	}
}

func TestRetryWaitsWithinItsLimits(t *testing.T) {
	f, err := parse("task: t\nresource: r\nretry: {attempts: 9, backoff: 4s, most: 8s}\nsteps: " +
		"[{name: s, run: x}]\n")
	must.Succeed(t, err)
	for failed, most := range map[int]time.Duration{
		1: 4 * time.Second, 2: 8 * time.Second, 5: 8 * time.Second,
	} {
		if wait := f.Retry.Backoff(failed); wait > most || wait < most/2 {
			t.Errorf("after %d failures it waits %s", failed, wait)
		}
	}
}

func TestAMissingFileIsNotAProblemOfTheFile(t *testing.T) {
	f, err := Load(filepath.Join(t.TempDir(), "none.yaml"), lookup)
	if f != nil || err == nil || errors.As(err, new(Problems)) {
		t.Errorf("got %v, %v", f, err)
	}
}

func TestAnEndlessFileIsRejected(t *testing.T) {
	if _, err := Load("/dev/zero", lookup); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("got %v", err)
	}
}

// parse reads a task file from a string.
func parse(text string) (*File, error) {
	r := &reader{path: "t.yaml", lookup: lookup, open: func(string) ([]byte, error) {
		return nil, errors.New("no such file")
	}}
	return r.read([]byte(text))
}
