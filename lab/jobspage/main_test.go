package jobspage

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/ringfence/ringfence/internal/servers/serverstest"
)

// program is the path of leader.
var program string

func TestMain(m *testing.M) { os.Exit(test(m)) }

// test builds leader and runs the tests.
func test(m *testing.M) int {
	dir, err := os.MkdirTemp("", "rf-jobs-page-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "leader")
	build := exec.Command("go", "build", "-o", program, "./cmd/leader")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
		return 1
	}
	return serverstest.RunMain(m)
}
