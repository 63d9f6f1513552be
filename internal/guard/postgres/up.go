package postgres

import "io"

// up passes on everything that the client sends to the server, and counts the requests.
type up struct {
	header
	progress *progress
}

func (u *up) Walk(b []byte, w io.Writer) (int, error) {
	if err := u.count(b); err != nil {
		return 0, err
	}
	return w.Write(b)
}

// count records what is about to be passed on. It fails once nothing more may be passed on.
func (u *up) count(b []byte) error {
	u.progress.mu.Lock()
	defer u.progress.mu.Unlock()
	if u.progress.closed != nil {
		return u.progress.closed
	}
	for len(b) > 0 {
		n, complete, err := u.next(b)
		if err != nil {
			return err
		}
		if complete {
			u.progress.sent(u.kind())
		}
		b = b[n:]
	}
	u.progress.midMessage = !u.boundary()
	return nil
}
