// Package must ends a test at a step that fails.
package must

import "testing"

// Succeed ends the test with err, unless it is nil.
func Succeed(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
