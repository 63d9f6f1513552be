package statuspage

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/ringfence/ringfence/internal/servers/serverstest"
)

// program is the path of guard.
var program string

func TestMain(m *testing.M) { os.Exit(test(m)) }

// test builds guard and runs the tests.
func test(m *testing.M) int {
	dir, err := os.MkdirTemp("", "rf-status-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "guard")
	build := exec.Command("go", "build", "-o", program, "./cmd/guard")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
		return 1
	}
	return serverstest.RunMain(m)
}
