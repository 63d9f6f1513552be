// Package tracked tests the files that the repository tracks: their size, and the width of lines.
package tracked

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// root is where the repository is.
const root = "../../.."

// largest is how many bytes a tracked file may have. A built program has more.
const largest = 1 << 20

// larger are tracked files that may have more, with the reason.
var larger = map[string]string{}

func TestNoBuiltProgramIsTracked(t *testing.T) {
	for _, name := range tracked(t) {
		info, err := os.Lstat(filepath.Join(root, name))
		if err != nil { // deleted, and not committed yet
			continue
		}
		if info.Size() > largest && larger[name] == "" {
			t.Errorf("%s has %d bytes: take it out, or list it here with a reason", name, info.Size())
		}
	}
}

// tracked returns the files of the repository, or those that match one of the patterns.
func tracked(t *testing.T, patterns ...string) []string {
	t.Helper()
	if _, err := os.Stat(filepath.Join(root, ".git")); err != nil {
		t.Skip("this is no checkout:", err)
	}
	cmd := exec.Command("git", append([]string{"ls-files", "-z", "--"}, patterns...)...)
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
}
