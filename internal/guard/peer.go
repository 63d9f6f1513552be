package guard

import (
	"net"
	"net/netip"
)

// local is what clients on a Unix socket are called, as in Postgres's own log. They have no names.
const local = "[local]"

// Peer is a client in logs and holder names.
func Peer(c net.Conn) string {
	if c.RemoteAddr().Network() == "unix" {
		return local
	}
	return c.RemoteAddr().String()
}

// address is what limits by address go by: the host of a client, or for IPv6 its network of 64 bits, of which one host
// may have every address.
func address(c net.Conn) string {
	at, err := netip.ParseAddrPort(c.RemoteAddr().String())
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
