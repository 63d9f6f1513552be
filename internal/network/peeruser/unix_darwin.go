package peeruser

import "golang.org/x/sys/unix"

// peer returns the user who has opened the connection: LOCAL_PEERCRED of unix(4).
func peer(fd int) (int, error) {
	c, err := unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	if err != nil {
		return -1, err
	}
	return int(c.Uid), nil
}
