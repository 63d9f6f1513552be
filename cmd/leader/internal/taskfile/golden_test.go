package taskfile

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/test/must"
)

var update = flag.Bool("update", false, "write the present output to the golden files")

const tasks = "../../../../testdata/tasks"

// lookup reads the environment of every test.
func lookup(name string) (string, bool) {
	value, ok := map[string]string{"DATE": "2026-11-21", "HOME": "/root"}[name]
	return value, ok
}

// Every file in testdata/tasks/bad is rejected with the problems in the .txt file next to it.
func TestBadFilesAreRejectedWithEveryMistakeAndItsPosition(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(tasks, "bad", "*.yaml"))
	if err != nil || len(files) < 15 {
		t.Fatal(len(files), err)
	}
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) {
			f, err := Load(path, lookup)
			var all Problems
			if f != nil || !errors.As(err, &all) || len(all) == 0 {
				t.Fatalf("got %+v, %v", f, err)
			}
			got := strings.ReplaceAll(err.Error(), filepath.Dir(path)+"/", "") + "\n"
			golden(t, strings.TrimSuffix(path, ".yaml")+".txt", got)
		})
	}
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		must.Succeed(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	must.Succeed(t, err)
	if got != string(want) {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}
