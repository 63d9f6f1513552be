package serverstest

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/ringfence/ringfence/internal/test/leak"
)

// short reports whether go test was called with -short, before a test has run.
func short() bool {
	if !flag.Parsed() {
		flag.Parse()
	}
	return testing.Short()
}

// RunMain runs the tests, closes the shared servers, and, if all tests have passed, looks for
// leaked goroutines. It returns the exit code.
func RunMain(m *testing.M, o ...goleak.Option) int {
	if short() {
		_ = flag.Set("test.skip", "^Example") // an example cannot skip itself
	}
	code := m.Run()
	if err := closeShared(); err != nil {
		fmt.Fprintln(os.Stderr, "close shared servers:", err)
		code = max(code, 1)
	}
	if code != 0 {
		return code // a failed test may leave goroutines behind
	}
	if err := leak.Find(o...); err != nil {
		fmt.Fprintln(os.Stderr, "goroutines left by the tests:", err)
		return 1
	}
	return 0
}
