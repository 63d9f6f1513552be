package succession

import (
	"net"

	"github.com/ringfence/ringfence/internal/test/servers"
)

// relay relays a journal's connection, for drivers that do not accept a custom connection. It may
// end the process after a write.
func (e *ending) relay(target string) (*servers.Relay, error) {
	return servers.NewRelay(target, servers.RelayOptions{
		Serve: func(r *servers.Relay, client, server net.Conn) { r.Pump(client, wire{server, e}) },
	})
}
