package endtoend

import (
	"flag"
	"os"
	"testing"

	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
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
	packages := map[string][]string{"../../../..": {"./cmd/guard", "./cmd/leader"}}
	os.Exit(serverstest.WithPrograms(packages, func(dir string) int {
		programs = dir
		return serverstest.RunMain(m)
	}))
}
