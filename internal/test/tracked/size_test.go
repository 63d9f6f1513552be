package imports

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// largest is how many bytes a tracked file may have. A built program has more.
const largest = 1 << 20

// larger are tracked files that may have more, with the reason.
var larger = map[string]string{}

func TestNoBuiltProgramIsTracked(t *testing.T) {
	if _, err := os.Stat(filepath.Join(root, ".git")); err != nil {
		t.Skip("this is no checkout:", err)
	}
	cmd := exec.Command("git", "ls-files", "-z")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		info, err := os.Lstat(filepath.Join(root, name))
		if err != nil { // deleted, and not committed yet
			continue
		}
		if info.Size() > largest && larger[name] == "" {
			t.Errorf("%s has %d bytes: take it out, or list it here with a reason", name, info.Size())
		}
	}
}
