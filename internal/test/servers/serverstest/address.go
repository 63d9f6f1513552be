package serverstest

import (
	"testing"

	"github.com/ringfence/ringfence/internal/test/servers"
)

// FreeAddresses returns n addresses where nobody listens, for programs that the test starts, stops
// and starts again. No other test gets them.
func FreeAddresses(t testing.TB, n int) []string {
	t.Helper()
	addresses, err := servers.FreeAddresses(n)
	if err != nil {
		t.Fatal(err)
	}
	return addresses
}
