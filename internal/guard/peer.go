package guard

import (
	"net"
	"net/netip"
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
func address(client net.Addr) string {
	at, err := netip.ParseAddrPort(client.String())
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
