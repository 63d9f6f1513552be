package postgres

import "encoding/binary"

// header follows the boundaries of a stream's messages. A message is a kind, a length of four bytes
// that counts itself, and a body.
type header struct {
	bytes [5]byte
	have  int    // bytes of the header seen so far
	left  uint32 // bytes of the body still to come
}

// boundary reports whether the stream is between two messages.
func (h *header) boundary() bool { return h.have == 0 && h.left == 0 }

// next consumes b up to the end of the current header or body. It returns the number of bytes, and
// whether they completed a header. A length below 4 is a violation of the protocol.
func (h *header) next(b []byte) (n int, complete bool, err error) {
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
		return n, false, violation("message %q with the impossible length %d", h.bytes[0], length)
	}
	h.have, h.left = 0, length-4
	return n, true, nil
}

func (h *header) kind() byte { return h.bytes[0] }
