package postgres

import "io"

// up passes on everything that the client sends to the server, and counts the requests.
type up struct {
	header
	progress *progress
}

func (u *up) Walk(b []byte, w io.Writer) (int, error) {
	passes, err := u.count(b)
	if !passes || err != nil {
		return len(b), err
	}
	n, err := w.Write(b)
	if err == nil {
		u.progress.passed()
	}
	return n, err
}

// count records what is about to be passed on. It returns false once nothing more is.
func (u *up) count(b []byte) (passes bool, err error) {
	u.progress.mu.Lock()
	defer u.progress.mu.Unlock()
	if u.progress.closed != nil {
		return false, nil
	}
	for len(b) > 0 {
		n, complete, err := u.next(b)
		if err != nil {
			return false, err
		}
		if complete {
			u.progress.sent(u.kind())
		}
		b = b[n:]
	}
	u.progress.midMessage = !u.boundary()
	u.progress.passing = true
	return true, nil
}
