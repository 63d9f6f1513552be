package postgres

import (
	"encoding/binary"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/ringfence/ringfence/internal/refusal"
)

// errDown means that downward has the reason.
var errDown = errors.New("nothing more comes from the server")

// downward passes on what the server sends.
func (r *readOnly) downward() error {
	for {
		head, err := r.fromServer.Peek(5)
		if err != nil {
			_ = r.flush()
			return serverError(err)
		}
		kind, length := head[0], int64(binary.BigEndian.Uint32(head[1:]))+1
		if length < 5 {
			return violation("message %q of %d bytes from the server", kind, length-1)
		}
		if err := r.forward(kind, length); err != nil {
			return err
		}
		if kind == 'Z' || r.fromServer.Buffered() == 0 {
			if err := r.flush(); err != nil {
				return err
			}
		}
		if kind == 'Z' {
			r.ready <- struct{}{}
		}
	}
}

// forward passes on one message of the server. Long ones pass as they come.
func (r *readOnly) forward(kind byte, length int64) error {
	const most = 64 << 10
	if length > most || kind != 'E' && kind != 'S' && kind != 'Z' {
		_, err := io.CopyN(readOnlyWriter{r}, r.fromServer, length)
		return r.wrote(err) // the client may have got a part of it
	}
	message := make([]byte, length)
	if _, err := io.ReadFull(r.fromServer, message); err != nil {
		return serverError(err)
	}
	switch kind {
	case 'E':
		message = r.explained(message)
	case 'S':
		var s pgproto3.ParameterStatus
		if err := s.Decode(message[5:]); err != nil {
			return err
		}
		r.mu.Lock()
		r.reported[s.Name] = s.Value
		r.mu.Unlock()
	case 'Z':
		if err := r.answered(message); err != nil {
			return err
		}
	}
	_, err := readOnlyWriter{r}.Write(message)
	return err
}

// explained replaces the server's error about a statement that the guard has put in place of a refused
// one.
func (r *readOnly) explained(message []byte) []byte {
	var e pgproto3.ErrorResponse
	if e.Decode(message[5:]) != nil {
		return message
	}
	_, rest, ok := strings.Cut(e.Message, r.nonce)
	if !ok {
		return message
	}
	digits := 0
	for digits < len(rest) && isDigit(rest[digits]) {
		digits++
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	n, err := strconv.Atoi(rest[:digits])
	if err != nil || n >= len(r.refused) {
		return message
	}
	own := errorResponse(r.refused[n])
	own.Severity, own.SeverityUnlocalized = "ERROR", "ERROR"
	return encoded(own)
}

// answered checks the settings before the next batch.
func (r *readOnly) answered(message []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refused = nil
	if len(message) == 6 {
		r.status = message[5]
	}
	if name, value := changed(r.reported); name != "" {
		return refusal.NoLongerReadOnly(name, value)
	}
	return nil
}

// readOnlyWriter writes to the client.
type readOnlyWriter struct{ *readOnly }

func (w readOnlyWriter) Write(b []byte) (int, error) {
	n, err := w.toClient.Write(b)
	return n, w.wrote(err)
}

func (r *readOnly) flush() error { return r.wrote(r.toClient.Flush()) }

// wrote remembers that a write has failed, perhaps in the middle of a message.
func (r *readOnly) wrote(err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut = r.cut || err != nil
	return err
}
