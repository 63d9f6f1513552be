package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
)

// Request codes and versions of the first packet (manual, 55.7 "Message Formats").
const (
	SSLRequest    = 80877103
	GSSEncRequest = 80877104
	CancelRequest = 80877102
	MajorVersion  = 3

	// MaxStartupPacket is the most bytes of a startup packet, with the length itself. It is the
	// server's own limit (MAX_STARTUP_PACKET_LENGTH).
	MaxStartupPacket = 10_004
)

// Startup is a client's first request: for a session, or if Cancel is set, to cancel a query.
type Startup struct {
	Packet []byte // as the client sent it, with its length
	Cancel bool

	Minor  uint16
	Params []Param
}

// What these clients get is no answer, as from Postgres.
var (
	ErrDirectTLS = errors.New("the client starts with TLS, for which there is no certificate here")
	ErrLength    = errors.New("invalid length of startup packet: whoever sent it does not speak the " +
		"protocol")
)

func readFirstPacket(r *bufio.Reader) (packet []byte, code uint32, err error) {
	head, err := r.Peek(4)
	if err != nil {
		if errors.Is(err, io.EOF) && len(head) > 0 {
			err = io.ErrUnexpectedEOF
		}
		return nil, 0, err
	}
	length := binary.BigEndian.Uint32(head)
	if length < 8 || length > MaxStartupPacket {
		return nil, 0, ErrLength
	}
	packet = make([]byte, length)
	if _, err := io.ReadFull(r, packet); err != nil {
		return nil, 0, err
	}
	return packet, binary.BigEndian.Uint32(packet[4:]), nil
}

// ParseStartup parses a packet that begins with this code.
func ParseStartup(packet []byte, code uint32) (*Startup, error) {
	if major := code >> 16; major != MajorVersion {
		return nil, Violation("unsupported frontend protocol %d.%d: only %d is spoken here", major,
			code&0xffff, MajorVersion)
	}
	s := &Startup{Packet: packet, Minor: uint16(code)}
	seen := map[string]bool{}
	body := packet[8:]
	for {
		name, rest, ok := CString(body)
		if !ok {
			return nil, Violation("invalid startup packet layout: expected terminator as last byte")
		}
		if name == "" {
			if len(rest) > 0 {
				return nil, Violation("invalid startup packet layout: bytes behind the terminator")
			}
			return s, nil
		}
		value, rest, ok := CString(rest)
		if !ok {
			return nil, Violation("invalid startup packet layout: a name without a value")
		}
		if seen[name] {
			return nil, Violation("startup parameter given twice: %.60q", name)
		}
		seen[name] = true
		s.Params = append(s.Params, Param{Name: name, Value: value})
		body = rest
	}
}

// Get returns a parameter, or "".
func (s *Startup) Get(name string) string {
	for _, p := range s.Params {
		if p.Name == name {
			return p.Value
		}
	}
	return ""
}

// EncodeStartup returns the packet that asks for a session.
func EncodeStartup(minor uint16, params []Param) []byte {
	b := make([]byte, 4, MaxStartupPacket)
	b = binary.BigEndian.AppendUint32(b, MajorVersion<<16|uint32(minor))
	for _, p := range params {
		b = append(append(b, p.Name...), 0)
		b = append(append(b, p.Value...), 0)
	}
	b = append(b, 0)
	binary.BigEndian.PutUint32(b, uint32(len(b)))
	return b
}
