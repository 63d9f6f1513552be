// Package wire has the parts of the Postgres protocol in which a guard itself reads and speaks:
// messages and their boundaries, and errors. Everything else passes as it came.
package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"

	"github.com/jackc/pgx/v5/pgproto3"
)

// Param is a startup parameter, or a setting in one.
type Param struct{ Name, Value string }

// MaxName is the longest name of a database, role or statement, in bytes (NAMEDATALEN - 1). The
// server cuts off what a client sends beyond it.
const MaxName = 63

// MaxMessage is the size in bytes of the longest message that Read takes. Postgres accepts password
// messages of up to 64 KiB.
const MaxMessage = 1 << 16

// Read reads one message of a login. It returns the kind, and the whole message with its header.
func Read(r *bufio.Reader) (kind byte, message []byte, err error) {
	head, err := r.Peek(5)
	if err != nil {
		return 0, nil, err
	}
	length := binary.BigEndian.Uint32(head[1:])
	if length < 4 || length > MaxMessage {
		return 0, nil, Violation("message %q of %d bytes during login", head[0], length)
	}
	kind = head[0]
	message = make([]byte, 1+length)
	_, err = io.ReadFull(r, message)
	return kind, message, err
}

// CString reads a string that ends with a zero byte.
func CString(b []byte) (s string, rest []byte, ok bool) {
	before, rest, ok := bytes.Cut(b, []byte{0})
	if !ok {
		return "", nil, false
	}
	return string(before), rest, true
}

// Encode encodes a message of the guard's own, which cannot fail.
func Encode(m pgproto3.Message) []byte {
	b, _ := m.Encode(nil)
	return b
}

// Send sends a message.
func Send(w io.Writer, m pgproto3.Message) error {
	b, err := m.Encode(nil)
	if err != nil {
		return err
	}
	_, err = w.Write(b)
	return err
}

// Header follows the boundaries of a stream's messages. A message is a kind, a length of four bytes
// that counts itself, and a body.
type Header struct {
	bytes [5]byte
	have  int    // bytes of the header seen so far
	left  uint32 // bytes of the body still to come
}

// Boundary reports whether the stream is between two messages.
func (h *Header) Boundary() bool { return h.have == 0 && h.left == 0 }

// Kind returns the kind of the message whose header was completed last.
func (h *Header) Kind() byte { return h.bytes[0] }

// Body returns how many bytes of the body are still to come.
func (h *Header) Body() uint32 { return h.left }

// Next consumes b up to the end of the current header or body. It returns the number of bytes, and
// whether they completed a header. A length below 4 is a violation of the protocol.
func (h *Header) Next(b []byte) (n int, complete bool, err error) {
	if h.left > 0 {
		n = int(min(uint64(h.left), uint64(len(b))))
		h.left -= uint32(n)
		return n, false, nil
	}
	n = copy(h.bytes[h.have:], b)
	h.have += n
	if h.have < len(h.bytes) {
		return n, false, nil
	}
	length := binary.BigEndian.Uint32(h.bytes[1:])
	if length < 4 {
		return n, false, Violation("message %q with the impossible length %d", h.bytes[0], length)
	}
	h.have, h.left = 0, length-4
	return n, true, nil
}
