package guard

import (
	"net"
	"net/netip"
	"strings"

	"github.com/ringfence/ringfence/internal/marks"
)

// local stands for clients on a Unix socket, which have no address; Postgres's log says the same.
const local = "[local]"

// Peer names a client in logs and as a holder.
func Peer(c net.Conn) string {
	if c.RemoteAddr().Network() == "unix" {
		return local
	}
	return c.RemoteAddr().String()
}

// address returns what limits go by: the host of a client, or for IPv6 its network of 64 bits,
// because one host may use every address of it.
func address(client net.Addr) string { return network(client.String()) }

func network(address string) string {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return local
	}
	ip := at.Addr().Unmap().WithZone("")
	if ip.Is6() {
		network, _ := ip.Prefix(64)
		return network.String()
	}
	return ip.String()
}

// Describe returns a client for logs and lists. The client chooses its user and the name of its
// application, so they are cut and cleaned, as Postgres does with an application_name.
func Describe(c net.Conn, user, application string) marks.Client {
	return marks.Client{
		Address: Peer(c), User: printable(user), Application: printable(application),
	}
}

func printable(s string) string {
	const most = 63 // NAMEDATALEN - 1
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s[:min(len(s), most)])
}
