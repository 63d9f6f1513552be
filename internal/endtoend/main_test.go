package endtoend

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/ringfence/ringfence/internal/servers/serverstest"
)

// programs is the directory of the guard and leader binaries.
var programs string

func TestMain(m *testing.M) {
	if os.Getenv("RINGFENCE_VICTIM") != "" {
		os.Exit(victim())
	}
	flag.Parse()
	if testing.Short() {
		os.Exit(0) // every test of this package runs the programs
	}
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "rf-bin-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		programs = dir
		build := exec.Command("go", "build", "-o", dir+string(filepath.Separator), "../../cmd/guard",
			"../../cmd/leader")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "%v: %s\n", err, out)
			return 1
		}
		return serverstest.RunMain(m)
	}())
}
