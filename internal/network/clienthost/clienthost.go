// Package clienthost says which connections come from one host, for limits by client.
package clienthost

import "net/netip"

// Of returns the host of an address with a port, or for IPv6 its network of 64 bits, because one
// host may use every address of it; "" if it is none, as on a Unix socket.
func Of(address string) string {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return ""
	}
	ip := at.Addr().Unmap().WithZone("")
	if ip.Is6() {
		network, _ := ip.Prefix(64)
		return network.String()
	}
	return ip.String()
}
