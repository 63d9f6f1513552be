package jobspage

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// program is the path of leader.
var program string

func TestMain(m *testing.M) {
	packages := map[string][]string{"../..": {"./cmd/leader"}}
	os.Exit(serverstest.WithPrograms(packages, func(dir string) int {
		program = filepath.Join(dir, "leader")
		return serverstest.RunMain(m)
	}))
}
