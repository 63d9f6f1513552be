package redis

import (
	"errors"
	"io"
)

// down walks the replies of an admitted session, to put the guard's answers into their places and to know whether the
// stream stands between two replies when it ends. What it cannot follow makes it blind: then everything passes as it
// is, and nothing of the guard's own is put in any more.
type down struct {
	swaps  *swaps
	frames frames
	blind  bool
}

// errDrained ends the relay: the sentinel of draining was answered, and so was everything before it.
var errDrained = errors.New("guard: drained")

// Walk implements guard.Walker.
func (d *down) Walk(b []byte, w io.Writer) (int, error) {
	from, at := 0, 0
	for at < len(b) && !d.blind {
		if b[at] == '-' && d.frames.top() {
			answer, size, final, more := d.swaps.find(b[at:])
			if more {
				break
			}
			if size > 0 {
				if err := swap(w, b[from:at], answer); err != nil {
					return at, err
				}
				at += size
				from = at
				if final {
					return at, errDrained
				}
				continue
			}
		}
		n, ended, err := d.frames.scan(b[at:])
		at += n
		d.blind = err != nil
		if !ended {
			break
		}
	}
	if d.blind {
		at = len(b)
	}
	if from == at {
		return at, nil
	}
	_, err := w.Write(b[from:at])
	return at, err
}

// swap writes what came before an answer, and the answer.
func swap(w io.Writer, before []byte, answer string) error {
	_, err := w.Write(append(before[:len(before):len(before)], answer...))
	return err
}

// between says that the client has been sent whole replies only.
func (d *down) between() bool { return d.frames.top() && !d.blind }
