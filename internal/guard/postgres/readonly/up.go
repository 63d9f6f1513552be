package readonly

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/ringfence/ringfence/internal/guard/postgres/wire"
	"github.com/ringfence/ringfence/internal/refusal"
)

// maxMessage is the most bytes of one message of a client.
const maxMessage = 1 << 20

// upward passes on what the client may send.
func (r *Session) upward() error {
	for {
		if err := r.idle(); err != nil {
			return err
		}
		kind, body, err := r.read()
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return errDrained
		case err != nil:
			return err
		}
		r.tell(func() { r.busy = true })
		if err := r.pass(kind, body); err != nil {
			return err
		}
	}
}

// idle says that nothing is under way, if that is so. The guard never counts as working for such a
// client: however long its queries take, it gives way to others.
func (r *Session) idle() error {
	if r.fromClient.Buffered() == 0 {
		if err := r.toServer.Flush(); err != nil {
			return err
		}
		r.client.Seat.Waiting()
	}
	if r.underWay() {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.busy = false
	if r.draining && r.status == 'I' {
		return errDrained
	}
	return r.failure
}

// read reads a message of the client.
func (r *Session) read() (kind byte, body []byte, err error) {
	head, err := r.fromClient.Peek(5)
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = errLeft
		}
		return 0, nil, err
	}
	kind = head[0]
	length := binary.BigEndian.Uint32(head[1:])
	if length < 4 || length > maxMessage {
		return 0, nil, wire.Violation("message %q of %d bytes; a session without a token may send %d",
			kind, length, maxMessage)
	}
	if _, err := r.fromClient.Discard(5); err != nil {
		return 0, nil, err
	}
	var all bytes.Buffer // it grows with what comes, and not with what the client announces
	if _, err = io.CopyN(&all, r.fromClient, int64(length-4)); errors.Is(err, io.EOF) {
		err = errLeft
	}
	return kind, all.Bytes(), err
}

// underWay reports whether the client has begun a batch that waits for its Sync.
func (r *Session) underWay() bool { return r.begun || r.skipping }

// pass decides on one message, and waits for the answer at the end of a batch.
func (r *Session) pass(kind byte, body []byte) error {
	switch kind {
	case 'Q', 'F':
		if r.underWay() {
			// After an error the server would skip it and never answer.
			return wire.Violation("message %q before the Sync of a pipeline", kind)
		}
		return r.exchange('Q', body, judgeQueryMessage(kind, body))
	case 'S':
		r.skipping = false
		return r.exchange('S', body, "")
	case 'P', 'B', 'D', 'E', 'C', 'H':
		return r.extended(kind, body)
	case 'd', 'c', 'f':
		return nil // of a COPY FROM that was refused; the server ignores them
	case 'X':
		return errLeft
	}
	return wire.Violation("message %q in a session without a token", kind)
}

// judgeQueryMessage returns why a message that the server answers with ReadyForQuery is refused.
func judgeQueryMessage(kind byte, body []byte) (why string) {
	text, rest, ok := wire.CString(body)
	switch {
	case kind == 'F':
		return "a function call by the protocol is no statement that the guard can read"
	case !ok || len(rest) > 0:
		return "the message has another form than a query"
	}
	return judge(text).refused
}

// extended passes on a message of the extended protocol, once the server has reported the settings
// that it relies on.
func (r *Session) extended(kind byte, body []byte) error {
	var j judgement
	if kind == 'P' {
		j = judgeParse(body)
	}
	if err := r.prepare(kind, j.depends); err != nil {
		return err
	}
	if r.skipping {
		return nil
	}
	if kind == 'E' {
		r.executed, r.limited = true, hasLimit(body)
	}
	if err := r.send(kind, body, j.refused); err != nil || kind != 'H' {
		return err
	}
	return r.toServer.Flush()
}

// prepare has the server report the settings, if a message needs that: because it may begin a
// transaction, and an Execute before it may have ended one, or because the meaning of its text depends
// on them. Close and Flush begin none.
func (r *Session) prepare(kind byte, depends bool) error {
	switch {
	case r.skipping, kind == 'C', kind == 'H':
		return nil
	case depends && r.begun:
		return r.report()
	case !r.executed:
		return nil
	}
	if suspended, err := r.suspended(); suspended || err != nil {
		return err
	}
	return r.report()
}

// judgeParse decides on the text of a Parse.
func judgeParse(body []byte) judgement {
	_, rest, ok := wire.CString(body)
	text, _, ok2 := wire.CString(rest)
	if !ok || !ok2 {
		return judgement{refused: "the message has another form than Parse"}
	}
	return judge(text)
}

// hasLimit reports whether an Execute has a limit of rows, which is its last field.
func hasLimit(body []byte) bool {
	return len(body) > 4 && int32(binary.BigEndian.Uint32(body[len(body)-4:])) > 0
}

// send passes a message on, or in its place one that the server refuses, if there is a reason to.
func (r *Session) send(kind byte, body []byte, why string) error {
	r.begun = true
	if why != "" {
		r.tell(func() { r.refused = refusal.ReadOnly(why) })
		if kind == 'Q' {
			return wire.Send(r.toServer, &pgproto3.Query{String: r.nonce})
		}
		r.skipping = true
		return wire.Send(r.toServer, &pgproto3.Parse{Query: r.nonce})
	}
	head := binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(body)+4))
	if _, err := r.toServer.Write(head); err != nil {
		return err
	}
	_, err := r.toServer.Write(body)
	return err
}

// report has the server report the settings before the client's next message, with a Sync that the
// client has not sent. The client gets no ReadyForQuery for it. After an error the server would have
// skipped everything before the client's Sync, so the guard does.
func (r *Session) report() error {
	r.tell(func() { r.own = true })
	if err := r.exchange('S', nil, ""); err != nil {
		return err
	}
	r.tell(func() { r.skipping = r.failed })
	return nil
}

// suspended reports whether the Execute has stopped at its limit of rows (PortalSuspended). Then its
// statement is not complete, so it has not ended the transaction, and a Sync would take from the client
// the portal with the other rows.
func (r *Session) suspended() (bool, error) {
	if !r.limited {
		return false, nil
	}
	if err := r.send('H', nil, ""); err != nil {
		return false, err
	}
	if err := r.await(func() bool { return r.outcome != 0 }); err != nil {
		return false, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.outcome != 's' {
		return false, nil
	}
	r.executed, r.outcome = false, 0
	return true, nil
}

// exchange sends a message that the server answers with ReadyForQuery, and waits for that.
func (r *Session) exchange(kind byte, body []byte, why string) error {
	r.tell(func() { r.asked = true })
	if err := r.send(kind, body, why); err != nil {
		return err
	}
	if err := r.await(func() bool { return !r.asked }); err != nil {
		return err
	}
	r.begun, r.executed = false, false
	return nil
}

// await sends what is buffered, and waits until something is so, or nothing more comes from the server.
func (r *Session) await(so func() bool) error {
	if err := r.toServer.Flush(); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for !so() {
		if r.over {
			return errDown
		}
		r.news.Wait()
	}
	return nil
}
