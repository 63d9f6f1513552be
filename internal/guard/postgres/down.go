package postgres

import (
	"io"

	"github.com/jackc/pgx/v5/pgproto3"
)

// errorMost is the longest ErrorResponse that is looked into before it is passed on, in bytes.
const errorMost = 8 << 10

// down walks from server to client. It passes everything on but one message: the FATAL 57P01 with which a backend says
// that it was told to end. That one is kept, for its reason may be a newer leader.
type down struct {
	header
	session *session
	wants   bool   // the next byte is the status of a ReadyForQuery
	ended   []byte // the message that was kept
	failed  bool   // a write to the client went wrong: nobody knows where its stream stands
}

func (d *down) Walk(b []byte, w io.Writer) (done int, err error) {
	from := 0 // b[from:at] is what may go on
	at := 0
	var answered []byte // the status of each ReadyForQuery in b; told when the client has it, for a shutdown ends idle sessions
	for at < len(b) {
		if d.boundary() && b[at] == 'E' {
			n := errorLength(b[at:])
			if n == 0 {
				break
			}
			if n > 0 && endsBackend(b[at:at+n]) {
				if err := d.forward(w, b[from:at]); err != nil {
					return at, err
				}
				d.ended = append([]byte(nil), b[at:at+n]...)
				at += n
				from = at
				continue
			}
		}
		n, complete, err := d.next(b[at:])
		if err != nil {
			return at, err
		}
		if !complete && d.wants {
			answered = append(answered, b[at])
		}
		d.wants = complete && d.kind() == 'Z'
		at += n
	}
	if err := d.forward(w, b[from:at]); err != nil {
		return at, err
	}
	for _, status := range answered {
		d.session.ready(status)
	}
	return at, nil
}

func (d *down) forward(w io.Writer, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	_, err := w.Write(b)
	d.failed = err != nil
	return err
}

// mayEnd tells whether the client's stream stands between two messages, so that a last one may be added.
func (d *down) mayEnd() bool { return d.boundary() && !d.failed }

// errorLength is how long the ErrorResponse at the start of b is: 0 when more of it has to come before it can be looked
// into, -1 when it is too long for that.
func errorLength(b []byte) int {
	var h header
	_, complete, err := h.next(b)
	switch {
	case err != nil || h.left > errorMost:
		return -1
	case !complete || 5+int(h.left) > len(b):
		return 0
	}
	return 5 + int(h.left)
}

// endsBackend tells whether a message is the last word of a backend that was told to end.
func endsBackend(message []byte) bool {
	var e pgproto3.ErrorResponse
	return e.Decode(message[5:]) == nil && e.Code == adminShutdown &&
		(e.SeverityUnlocalized == "FATAL" || e.Severity == "FATAL")
}
