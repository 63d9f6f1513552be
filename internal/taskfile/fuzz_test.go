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

// FuzzStatements checks that the lexer ends, that its positions are within the text, and that it
// finds a statement after well-formed text.
func FuzzStatements(f *testing.F) {
	for _, text := range []string{
		"select 1; commit", "/* /* */ */ begin", "$a$ commit; $b$ $a$; end", `e'\'' ; abort`,
		"'it''s'; rollback to a",
		"create function f() returns int begin atomic select case when true then 1 end; end; select 1",
		"select $1, a$b$c", "--", "/*", "'", "$$", "e'\\",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		open := false
		for _, m := range examine(text) {
			if m.offset < 0 || m.offset > len(text) {
				t.Errorf("at %d of %d: %s", m.offset, len(text), m.what)
			}
			open = open || strings.Contains(m.what, "does not end")
		}
		l := &lexer{text: text}
		var last statement
		for !last.last {
			last = l.statement()
		}
		if open || last.parens > 0 || last.bodies > 0 {
			return
		}
		seen := false
		for _, m := range examine(text + "\n;commit") {
			seen = seen || m.offset == len(text)+2
		}
		if !seen {
			t.Errorf("COMMIT after %q was not found", text)
		}
	})
}
