package worker

import (
	"fmt"
	"os"
	"testing"

	"github.com/ringfence/ringfence/internal/test/leak"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// programs is the directory of guard, leader and worker.
var programs string

func TestMain(m *testing.M) {
	packages := map[string][]string{
		"../..": {"./cmd/guard", "./cmd/leader"}, "..": {"./cmd/worker"},
	}
	os.Exit(serverstest.WithPrograms(packages, func(dir string) int {
		programs = dir
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
	}))
}
