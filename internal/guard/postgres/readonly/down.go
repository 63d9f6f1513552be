package readonly

import (
	"encoding/binary"
	"errors"
	"io"
	"strings"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/ringfence/ringfence/internal/guard/postgres/wire"
	"github.com/ringfence/ringfence/internal/refusal"
)

// errDown means that downward has the reason.
var errDown = errors.New("nothing more comes from the server")

// downward passes on what the server sends.
func (r *Session) downward() error {
	for {
		head, err := r.fromServer.Peek(5)
		if err != nil {
			_ = r.flush()
			return err
		}
		kind, length := head[0], int64(binary.BigEndian.Uint32(head[1:]))+1
		if length < 5 {
			return wire.Violation("message %q of %d bytes from the server", kind, length-1)
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
			r.tell(func() { r.asked = false })
		}
	}
}

// forward passes on one message of the server. Long ones pass as they come.
func (r *Session) forward(kind byte, length int64) error {
	const most = 64 << 10
	if strings.IndexByte("CIsE", kind) >= 0 {
		r.tell(func() { r.outcome = kind })
	}
	if length > most || kind != 'E' && kind != 'S' && kind != 'Z' {
		_, err := io.CopyN(toClient{r}, r.fromServer, length)
		return r.wrote(err) // the client may have got a part of it
	}
	message := make([]byte, length)
	if _, err := io.ReadFull(r.fromServer, message); err != nil {
		return err
	}
	switch kind {
	case 'E':
		message = r.explained(message)
	case 'S':
		var s pgproto3.ParameterStatus
		if err := s.Decode(message[5:]); err != nil {
			return err
		}
		r.tell(func() { r.reported[s.Name] = s.Value })
	case 'Z':
		if own, err := r.answered(message); own || err != nil {
			return err
		}
	}
	_, err := toClient{r}.Write(message)
	return err
}

// explained replaces the server's error about the statement that the guard has put in place of a refused
// one.
func (r *Session) explained(message []byte) []byte {
	var e pgproto3.ErrorResponse
	if e.Decode(message[5:]) != nil || !strings.Contains(e.Message, r.nonce) {
		return message
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refused == nil {
		return message
	}
	return wire.Encode(wire.Response("ERROR", r.refused))
}

// answered checks what the server has reported with a ReadyForQuery. It reports whether that answers a
// Sync of the guard, so the client does not get it.
func (r *Session) answered(message []byte) (own bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.asked {
		return false, wire.Violation("ReadyForQuery that answers nothing")
	}
	r.refused = nil
	if len(message) == 6 {
		r.status = message[5]
	}
	own, r.own = r.own, false
	r.failed, r.outcome = r.outcome == 'E', 0
	if name, value := Changed(r.reported); name != "" {
		return own, refusal.NoLongerReadOnly(name, value)
	}
	return own, nil
}

// toClient writes to the client.
type toClient struct{ r *Session }

func (w toClient) Write(b []byte) (int, error) {
	n, err := w.r.toClient.Write(b)
	return n, w.r.wrote(err)
}

func (r *Session) flush() error { return r.wrote(r.toClient.Flush()) }

// wrote remembers that a write has failed, perhaps in the middle of a message.
func (r *Session) wrote(err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut = r.cut || err != nil
	return err
}
