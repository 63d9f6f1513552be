//go:build !linux

package agent

import "net"

// unread does not know: this system does not tell.
func unread(*net.UnixConn) (bytes int, told bool) { return 0, false }
