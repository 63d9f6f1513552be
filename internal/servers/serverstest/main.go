package serverstest

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/ringfence/ringfence/internal/leak"
)

// RunMain runs the tests, closes the shared servers, and, when all tests have
// passed, looks for goroutines that they left behind. It returns the exit code.
func RunMain(m *testing.M, o ...goleak.Option) int {
	code := m.Run()
	if err := closeShared(); err != nil {
		fmt.Fprintln(os.Stderr, "close shared servers:", err)
		code = max(code, 1)
	}
	if code != 0 {
		return code // a failed test leaves what it likes
	}
	if err := leak.Find(o...); err != nil {
		fmt.Fprintln(os.Stderr, "goroutines left by the tests:", err)
		return 1
	}
	return 0
}
