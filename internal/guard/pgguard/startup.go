package pgguard

import (
	"net"
	"strings"

	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/guard/pgguard/wire"
	"github.com/ringfence/ringfence/internal/marks"
)

// newestMinor is of the newest protocol that the relay can follow: 3.2, Postgres 18.
const newestMinor = 2

// startup is a client's first request.
type startup struct{ *wire.Startup }

// negotiated returns the packet for the server, and what was removed from the client's: protocol
// options (_pq_.…), none of which the guard knows, and a minor version above newestMinor. If they
// were forwarded, server and client could agree on messages that the relay cannot follow. A request
// without them is forwarded unchanged.
func (s *startup) negotiated() (packet []byte, unknown []string, capped bool) {
	capped = s.Minor > newestMinor
	kept := make([]wire.Param, 0, len(s.Params))
	for _, p := range s.Params {
		if strings.HasPrefix(p.Name, "_pq_.") {
			unknown = append(unknown, p.Name)
			continue
		}
		kept = append(kept, p)
	}
	if !capped && len(unknown) == 0 {
		return s.Packet, nil, false
	}
	return wire.EncodeStartup(s.granted(), kept), unknown, capped
}

// granted returns the minor version for the server.
func (s *startup) granted() uint16 { return min(s.Minor, newestMinor) }

// holder names a client as the holder of its token, until the coordinator has a better name.
func (s *startup) holder(client net.Conn) string {
	c := s.client(client)
	who := c.User + "@" + c.Address
	if c.Application != "" {
		who += " (" + c.Application + ")"
	}
	return who
}

// client describes a client by what it says of itself.
func (s *startup) client(c net.Conn) marks.Client {
	return guard.Describe(c, s.Get("user"), s.Get("application_name"))
}
