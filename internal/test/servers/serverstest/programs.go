package serverstest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// WithPrograms builds programs in a new folder, calls run with the folder, and removes it. packages
// are by the folder of their module. It returns run's exit code, or 1 if it could not build them.
func WithPrograms(packages map[string][]string, run func(dir string) int) int {
	dir, err := os.MkdirTemp("", "rf-bin-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	for module, names := range packages {
		args := append([]string{"build", "-o", dir + string(filepath.Separator)}, names...)
		build := exec.Command("go", args...)
		build.Dir = module
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "go build %v: %v\n%s", names, err, out)
			return 1
		}
	}
	return run(dir)
}
