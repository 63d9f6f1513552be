package guard

import (
	"cmp"
	"net"
	"strings"

	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/network/clienthost"
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

// address returns what limits go by.
func address(client net.Addr) string { return network(client.String()) }

func network(address string) string { return cmp.Or(clienthost.Of(address), local) }

// Describe returns a client for logs and lists. The client chooses its user and the name of its
// application, so they are cut and cleaned, as Postgres does with an application_name.
func Describe(c net.Conn, user, application string) marks.Client {
	return marks.Client{
		Address: Peer(c), User: printable(user), Application: printable(application),
	}
}

func printable(s string) string {
	const max = 63 // NAMEDATALEN - 1
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s[:min(len(s), max)])
}
