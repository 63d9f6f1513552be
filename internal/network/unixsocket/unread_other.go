//go:build !linux

package unixsocket

import "net"

// Unread does not know: this system does not tell.
func Unread(*net.UnixConn) (bytes int, told bool) { return 0, false }
