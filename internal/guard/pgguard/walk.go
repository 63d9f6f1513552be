package pgguard

import (
	"io"
	"strings"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/ringfence/ringfence/internal/guard/pgguard/wire"
	"github.com/ringfence/ringfence/internal/guard/relay"
)

// up passes on everything that the client sends to the server, and counts the requests.
type up struct {
	wire.Header
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

// count records what is about to be passed on, and returns how much that is: nothing once the
// session is quiet, and nothing of a header that is invalid. The server executes what came before
// it.
func (u *up) count(b []byte) (passes int, invalid error) {
	u.progress.mu.Lock()
	defer u.progress.mu.Unlock()
	if u.progress.closed != nil {
		return 0, nil
	}
	for passes < len(b) {
		n, complete, err := u.Next(b[passes:])
		if err != nil {
			invalid = err
			break
		}
		if complete {
			u.progress.sent(u.Kind())
		}
		passes += n
	}
	u.progress.midMessage = !u.Boundary()
	u.progress.passing = passes > 0
	return passes, invalid
}

// maxError is the size in bytes of the longest ErrorResponse that is parsed before it is passed on.
const maxError = 8 << 10

// down passes on what the server sends to the client, except for one message: the FATAL 57P01 of a
// backend that was told to terminate. It keeps that one, because the reason may be a newer leader.
// It passes on nothing more once the guard has sent a statement of its own.
type down struct {
	wire.Header
	progress    *progress
	silent      bool   // nothing more is passed on
	unpassed    []byte // the kinds of the first answers that were not passed on
	statusNext  bool   // the next byte is the status of a ReadyForQuery
	shutdown    []byte // the message that was kept
	writeFailed bool   // a write to the client failed, so its stream may have stopped anywhere
}

func (d *down) Walk(b []byte, w io.Writer) (done int, err error) {
	from := 0 // b[from:at] is to be passed on, unless d is silent
	at := 0
	// They count only once the client has them: a shutdown ends an idle session.
	var statuses []byte
	for at < len(b) {
		if d.Boundary() {
			if !d.silent && d.progress.silent.Load() {
				if err := d.forward(w, b[from:at]); err != nil {
					return at, err
				}
				d.silent = true
			}
			n, kept := d.keepShutdown(b[at:])
			if n == 0 {
				break
			}
			if !kept || string(d.unpassed) != proofAnswer { // another guard may end it once it was let go
				d.note(b[at])
			}
			if kept {
				if err := d.forward(w, b[from:at]); err != nil {
					return at, err
				}
				at += n
				from = at
				continue
			}
		}
		n, complete, err := d.Next(b[at:])
		if err != nil {
			return at, err
		}
		if !complete && d.statusNext {
			statuses = append(statuses, b[at])
		}
		d.statusNext = complete && d.Kind() == 'Z'
		at += n
	}
	if err := d.forward(w, b[from:at]); err != nil {
		return at, err
	}
	for _, status := range statuses {
		d.progress.ready(status)
	}
	return at, nil
}

// keepShutdown keeps the last message of a backend that was told to terminate, if b begins with
// one. n is its length. It is 0 if b holds too little to decide, and -1 for any other message.
func (d *down) keepShutdown(b []byte) (n int, kept bool) {
	if b[0] != 'E' {
		return -1, false
	}
	n = errorLength(b)
	if n > 0 && isShutdown(b[:n]) {
		d.shutdown = append([]byte(nil), b[:n]...)
		return n, true
	}
	return n, false
}

// note records that a message begins. NoticeResponse, ParameterStatus and NotificationResponse are
// no answers: the server sends them when it likes.
func (d *down) note(kind byte) {
	if d.silent && len(d.unpassed) <= len(proofAnswer) && !strings.ContainsRune("NSA", rune(kind)) {
		d.unpassed = append(d.unpassed, kind)
	}
}

// proofAnswer is the answer to the statement of a proof: EmptyQueryResponse and ReadyForQuery.
const proofAnswer = "IZ"

// onlyProof reports whether the answer to the proof is all that was not passed on.
func (d *down) onlyProof() bool { return string(d.unpassed) == proofAnswer && d.Boundary() }

// whole reports whether all that the server sent was seen: it has closed the connection in order,
// or its last message has come. Such a backend may leave what it was sent unread, and then the
// connection ends with a reset.
func (d *down) whole(end relay.End) bool {
	return end.Side == relay.ServerSide && (end.Err == nil || d.shutdown != nil)
}

func (d *down) forward(w io.Writer, b []byte) error {
	if len(b) == 0 || d.silent {
		return nil
	}
	_, err := w.Write(b)
	d.writeFailed = err != nil
	return err
}

// mayAppend reports whether the guard may add a message of its own to what the client got: only
// between two messages.
func (d *down) mayAppend() bool { return (d.silent || d.Boundary()) && !d.writeFailed }

// errorLength returns the length of the ErrorResponse at the start of b, 0 if b holds only a part
// of it, or -1 if it is malformed or too long to be parsed.
func errorLength(b []byte) int {
	var h wire.Header
	_, complete, err := h.Next(b)
	switch {
	case err != nil || h.Body() > maxError:
		return -1
	case !complete || 5+int(h.Body()) > len(b):
		return 0
	}
	return 5 + int(h.Body())
}

// isShutdown reports whether a message is the last one of a backend that was told to terminate.
func isShutdown(message []byte) bool {
	var e pgproto3.ErrorResponse
	return e.Decode(message[5:]) == nil && e.Code == wire.AdminShutdown &&
		(e.SeverityUnlocalized == "FATAL" || e.Severity == "FATAL")
}
