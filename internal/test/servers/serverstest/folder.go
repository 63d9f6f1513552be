package serverstest

import (
	"strings"
	"testing"
)

// Folder is where the test's elections are.
func Folder(t testing.TB) string {
	return "/" + strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-"))
}
