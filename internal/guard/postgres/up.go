package postgres

import "io"

// up walks from client to server. It passes everything on and only counts what is under way.
type up struct {
	header
	session *session
}

func (u *up) Walk(b []byte, w io.Writer) (int, error) {
	if err := u.count(b); err != nil {
		return 0, err
	}
	return w.Write(b)
}

func (u *up) count(b []byte) error {
	u.session.mu.Lock()
	defer u.session.mu.Unlock()
	if err := u.session.upstream(); err != nil {
		return err
	}
	for len(b) > 0 {
		n, complete, err := u.next(b)
		if err != nil {
			return err
		}
		if complete {
			u.session.sent(u.kind())
		}
		b = b[n:]
	}
	u.session.mid = !u.boundary()
	return nil
}
