// Package must fails a test at a step that returns an error.
package must

import "testing"

// Succeed ends the test with err, unless it is nil.
func Succeed(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Report fails the test with err, unless it is nil, and lets it go on.
func Report(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}
