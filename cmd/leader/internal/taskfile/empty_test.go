package taskfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A key without a value is a mistake, and never means the default.
func TestAKeyWithoutAValueIsRefused(t *testing.T) {
	const file = "task: t\nresource: r\nsteps:\n- {name: a, run: x}\n"
	texts := map[string]string{}
	for _, empty := range []string{"", " ''", " ' '", " null", " ~"} {
		for _, key := range []string{"journal", "rounds", "every", "state", "retry", "changed"} {
			texts[key+":"+empty] = file + key + ":" + empty + "\n"
		}
		for _, key := range []string{"task", "resource"} {
			texts[key+":"+empty] = strings.Replace(file, key+": "+key[:1], key+":"+empty, 1)
		}
		texts["steps:"+empty] = "task: t\nresource: r\nsteps:" + empty + "\n"
		const step = "task: t\nresource: r\nsteps:\n- name: a\n  run: x\n"
		for _, key := range []string{"unfinished", "ask", "timeout", "retry"} {
			texts["step "+key+":"+empty] = step + "  " + key + ":" + empty + "\n"
		}
		for _, key := range []string{"sql", "sql_file", "run", "redis"} {
			texts["step "+key+":"+empty] = "task: t\nresource: r\nsteps:\n- name: a\n  " + key + ":" +
				empty + "\n"
		}
		texts["attempts:"+empty] = file + "retry:\n  attempts:" + empty + "\n"
		for _, key := range []string{"backoff", "most"} {
			texts[key+":"+empty] = file + "retry:\n  attempts: 2\n  " + key + ":" + empty + "\n"
		}
	}
	path := filepath.Join(t.TempDir(), "t.yaml")
	for what, text := range texts {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(path, lookup); err == nil {
			t.Errorf("%q is read without a problem", what)
		}
	}
}
