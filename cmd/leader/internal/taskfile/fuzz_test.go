package taskfile

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzLoad checks that any file leads to problems with positions in it, or to a task that can run,
// and never to a panic or an endless loop.
func FuzzLoad(f *testing.F) {
	files, _ := filepath.Glob(filepath.Join(tasks, "*", "*.yaml"))
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		file, err := parse(text)
		if err != nil {
			wantPlaces(t, err, text)
			return
		}
		var state map[string]any
		if err := json.Unmarshal(file.State, &state); err != nil {
			t.Errorf("state %q: %v", file.State, err)
		}
		names := map[string]bool{}
		for _, s := range file.Steps {
			kinds := 0
			for _, given := range []bool{s.SQL != nil, s.Run != "", len(s.Redis) > 0} {
				if given {
					kinds++
				}
			}
			if kinds != 1 || s.Name == "" || names[s.Name] {
				t.Errorf("an invalid step was accepted: %+v", s)
			}
			names[s.Name] = true
		}
		if len(names) == 0 {
			t.Error("a task without steps")
		}
	})
}

func wantPlaces(t *testing.T, err error, text string) {
	t.Helper()
	var all Problems
	if !errors.As(err, &all) || len(all) == 0 {
		t.Fatalf("got %v", err)
	}
	lines := 2
	for _, end := range []string{"\n", "\r", "\u0085", "\u2028", "\u2029"} {
		lines += strings.Count(text, end)
	}
	for _, p := range all {
		if p.At.File == "" || p.What == "" || p.At.Line < 0 || p.At.Line > lines {
			t.Errorf("a problem without a place in %d lines: %+v", lines, p)
		}
	}
}

// A semicolon inside of something does not end a statement, and one behind it does.
func TestStatementsEnd(t *testing.T) {
	for _, text := range []string{
		"select 1", "/* ; /* ; */ */", "select $a$ ; $b$ ; $a$", `select e'\' ; '`, "select 'it''s ; '",
		"create rule r as on insert to t do (select 1; select 2)", `select ";"`, "select $1, a$b$c",
		"create function f() returns int begin atomic select case when true then 1 end; end",
	} {
		found := examine("select 1;" + text + "\n;commit")
		if len(found) != 1 || found[0].offset != len("select 1;"+text+"\n;") {
			t.Errorf("COMMIT after %q: %v", text, found)
		}
	}
}
