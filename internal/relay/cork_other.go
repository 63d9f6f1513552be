//go:build !linux

package relay

import "net"

// Cork does nothing: only Linux can hold back what is written.
func Cork(net.Conn) {}
