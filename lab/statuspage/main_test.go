package statuspage

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// program is the path of guard.
var program string

func TestMain(m *testing.M) {
	packages := map[string][]string{"../..": {"./cmd/guard"}}
	os.Exit(serverstest.WithPrograms(packages, func(dir string) int {
		program = filepath.Join(dir, "guard")
		return serverstest.RunMain(m)
	}))
}
