package worker

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/ringfence/ringfence/internal/leak"
)

// programs is the directory of guard, leader and worker.
var programs string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "rf-lab-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		programs = dir
		for module, packages := range map[string][]string{
			"../..": {"./cmd/guard", "./cmd/leader"}, "..": {"./cmd/worker"},
		} {
			build := exec.Command("go", append([]string{"build", "-o", dir + "/"}, packages...)...)
			build.Dir = module
			if out, err := build.CombinedOutput(); err != nil {
				fmt.Fprintf(os.Stderr, "%v: %s\n", err, out)
				return 1
			}
		}
		code := m.Run()
		closeShared()
		if code != 0 {
			return code // a failed test may leave goroutines
		}
		if err := leak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, "goroutines left by the tests:", err)
			return 1
		}
		return 0
	}())
}
