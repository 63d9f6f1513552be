package redisguard

import (
	"errors"
	"io"
)

// down walks the replies of an admitted session. It puts the guard's replies into their places, and
// knows whether the stream is between two replies when it ends. If it cannot parse the stream it
// goes blind: from then on everything passes unchanged, and it injects nothing more.
type down struct {
	injected *injectedReplies
	frames   frames
	blind    bool
	torn     bool   // a write to the client failed, so its stream may have stopped anywhere
	lastWord string // the answer to the sentinel, which is for whoever closes the connection
}

// errDrained ends the relay: the server has answered the sentinel, and everything before.
var errDrained = errors.New("guard: drained")

// Walk implements relay.Walker.
func (d *down) Walk(b []byte, w io.Writer) (int, error) {
	from, at := 0, 0
	for at < len(b) && !d.blind {
		if b[at] == '-' && d.frames.betweenReplies() {
			answer, size, final, more := d.injected.match(b[at:])
			if more {
				break
			}
			if size > 0 {
				if final {
					d.lastWord, answer = answer, ""
				}
				if err := writeInjected(w, b[from:at], answer); err != nil {
					d.torn = true
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
	d.torn = err != nil
	return at, err
}

// writeInjected writes the bytes before an injected reply, and then the reply.
func writeInjected(w io.Writer, before []byte, answer string) error {
	if len(before)+len(answer) == 0 {
		return nil
	}
	_, err := w.Write(append(before[:len(before):len(before)], answer...))
	return err
}

// atBoundary reports whether the client has got only complete replies.
func (d *down) atBoundary() bool { return d.frames.betweenReplies() && !d.blind }
