package postgres

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"strconv"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/ringfence/ringfence/internal/refusal"
)

// upward passes on what the client may send.
func (r *readOnly) upward() error {
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
		r.setBusy(true)
		if err := r.pass(kind, body); err != nil {
			return err
		}
	}
}

// idle says that nothing is under way, if that is so. The guard never counts as working for such a
// client: however long its queries take, it gives way to others.
func (r *readOnly) idle() error {
	if r.fromClient.Buffered() == 0 {
		if err := r.toServer.Flush(); err != nil {
			return err
		}
		r.client.Seat.Waiting()
	}
	if r.begun {
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

func (r *readOnly) setBusy(busy bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.busy = busy
}

// read reads a message of the client.
func (r *readOnly) read() (kind byte, body []byte, err error) {
	head, err := r.fromClient.Peek(5)
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = errLeft
		}
		return 0, nil, err
	}
	kind = head[0]
	length := binary.BigEndian.Uint32(head[1:])
	if length < 4 || length > maxReadMessage {
		return 0, nil, violation("message %q of %d bytes; a session without a token may send %d",
			kind, length, maxReadMessage)
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

// pass decides on one message, and waits for the answer at the end of a batch.
func (r *readOnly) pass(kind byte, body []byte) error {
	if r.begun && (kind == 'Q' || kind == 'F') {
		// After an error the server would skip it and never answer.
		return violation("message %q before the Sync of a pipeline", kind)
	}
	switch kind {
	case 'Q':
		why := ""
		if text, rest, ok := cstring(body); !ok || len(rest) > 0 {
			why = "the message has another form than a query"
		} else {
			why = r.judged(judge(text))
		}
		if err := r.send(kind, body, why); err != nil {
			return err
		}
		return r.answer()
	case 'F':
		if err := r.send('Q', nil, "a function call by the protocol is no statement that the guard can read"); err != nil {
			return err
		}
		return r.answer()
	case 'S':
		if err := r.send(kind, body, ""); err != nil {
			return err
		}
		return r.answer()
	case 'P':
		return r.send(kind, body, r.parse(body))
	case 'B':
		return r.send(kind, body, r.bind(body))
	case 'E':
		return r.send(kind, body, r.execute(body))
	case 'D', 'C', 'H':
		if err := r.send(kind, body, ""); err != nil || kind != 'H' {
			return err
		}
		return r.toServer.Flush()
	case 'd', 'c', 'f':
		return nil // of a COPY FROM that was refused; the server ignores them
	case 'X':
		return errLeft
	}
	return violation("message %q in a session without a token", kind)
}

// judged returns why a text is refused here.
func (r *readOnly) judged(j judgement) string {
	switch {
	case j.refused != "":
		return j.refused
	case r.ended:
		return nothingNext
	case j.depends && r.executed:
		return "a backslash in a string, after a statement of the same batch that may have changed what it means"
	}
	return ""
}

// parse decides on a Parse.
func (r *readOnly) parse(body []byte) (why string) {
	name, rest, ok := cstring(body)
	text, _, ok2 := cstring(rest)
	if !ok || !ok2 {
		return "the message has another form than Parse"
	}
	j := judge(text)
	if why := r.judged(j); why != "" {
		return why
	}
	switch {
	case name == "":
		r.unnamed = j.ends
	case j.ends && len(r.enders) >= maxEnders:
		return "the session has prepared too many statements that end transactions"
	case j.ends:
		r.enders[name] = true
	}
	return ""
}

// bind decides on a Bind.
func (r *readOnly) bind(body []byte) (why string) {
	portal, rest, ok := cstring(body)
	statement, _, ok2 := cstring(rest)
	ends := statement == "" && r.unnamed || r.enders[statement]
	switch {
	case !ok || !ok2:
		return "the message has another form than Bind"
	case r.ended:
		return nothingNext
	case portal != "" && ends:
		return "a portal with a name must not end a transaction"
	case portal == "":
		r.unnamedPortal = ends
	}
	r.executed = true // to plan a query, the server may call functions in it
	return ""
}

// execute decides on an Execute.
func (r *readOnly) execute(body []byte) (why string) {
	portal, _, ok := cstring(body)
	switch {
	case !ok:
		return "the message has another form than Execute"
	case r.ended:
		return nothingNext
	}
	r.executed = true
	r.ended = portal == "" && r.unnamedPortal
	return ""
}

// send passes a message on, or in its place one that the server refuses, if there is a reason to.
func (r *readOnly) send(kind byte, body []byte, why string) error {
	r.begun = true
	if why != "" {
		r.mu.Lock()
		r.refused = append(r.refused, refusal.ReadOnly(why))
		junk := r.nonce + strconv.Itoa(len(r.refused)-1)
		r.mu.Unlock()
		if kind == 'Q' {
			return send(r.toServer, &pgproto3.Query{String: junk})
		}
		return send(r.toServer, &pgproto3.Parse{Query: junk})
	}
	head := binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(body)+4))
	if _, err := r.toServer.Write(head); err != nil {
		return err
	}
	_, err := r.toServer.Write(body)
	return err
}

// answer waits until the server has answered the batch.
func (r *readOnly) answer() error {
	if err := r.toServer.Flush(); err != nil {
		return err
	}
	select {
	case <-r.ready:
	case <-r.gone:
		return errDown
	}
	r.begun, r.executed, r.ended = false, false, false
	return nil
}
