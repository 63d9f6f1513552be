//go:build unix

package systemd

import (
	"time"

	"golang.org/x/sys/unix"
)

// monotonic returns the time of the system's monotonic clock.
func monotonic() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return 0
	}
	return time.Duration(now.Nano())
}
