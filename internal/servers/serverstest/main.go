package serverstest

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// leakPatience is how long goroutines may take to end after the tests: on a busy machine what was closed ends late.
const leakPatience = 30 * time.Second

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
	if err := leaked(o...); err != nil {
		fmt.Fprintln(os.Stderr, "goroutines left by the tests:", err)
		return 1
	}
	return 0
}

// leaked looks for goroutines until all have ended, or for so long that they never will.
func leaked(o ...goleak.Option) (err error) {
	for deadline := time.Now().Add(leakPatience); ; {
		if err = goleak.Find(o...); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}
