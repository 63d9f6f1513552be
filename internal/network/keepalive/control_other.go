//go:build !linux

package keepalive

import "syscall"

// control does nothing: other systems have no such option.
func (t Timeouts) control(network, address string, c syscall.RawConn) error { return nil }
