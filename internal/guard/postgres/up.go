package postgres

import "io"

// up passes on everything that the client sends to the server, and counts the requests.
type up struct {
	header
	progress *progress
}

func (u *up) Walk(b []byte, w io.Writer) (int, error) {
	passes, invalid := u.count(b)
	if passes == 0 {
		return len(b), invalid
	}
	n, err := w.Write(b[:passes])
	if err != nil {
		return n, err
	}
	u.progress.passed()
	return len(b), invalid
}

// count records what is about to be passed on, and returns how much that is: nothing once the session
// is quiet, and nothing of a header that is invalid. The server executes what came before it.
func (u *up) count(b []byte) (passes int, invalid error) {
	u.progress.mu.Lock()
	defer u.progress.mu.Unlock()
	if u.progress.closed != nil {
		return 0, nil
	}
	for passes < len(b) {
		n, complete, err := u.next(b[passes:])
		if err != nil {
			invalid = err
			break
		}
		if complete {
			u.progress.sent(u.kind())
		}
		passes += n
	}
	u.progress.midMessage = !u.boundary()
	u.progress.passing = passes > 0
	return passes, invalid
}
