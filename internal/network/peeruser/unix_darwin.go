package peeruser

import "golang.org/x/sys/unix"

// peer returns the user who has opened the connection: LOCAL_PEERCRED of unix(4).
func peer(fd int) (Peer, error) {
	c, err := unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	if err != nil {
		return Peer{User: -1}, err
	}
	return Peer{User: int(c.Uid)}, nil
}
