package serverstest

import (
	"testing"

	"github.com/ringfence/ringfence/internal/test/servers"
)

// NewRelay relays to a server until the test ends.
func NewRelay(t testing.TB, server string) *servers.Relay {
	t.Helper()
	return NewRelayWith(t, server, servers.RelayOptions{})
}

// NewRelayWith is NewRelay with options.
func NewRelayWith(t testing.TB, server string, o servers.RelayOptions) *servers.Relay {
	t.Helper()
	r, err := servers.NewRelay(server, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}
