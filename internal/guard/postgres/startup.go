package postgres

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/guard/postgres/wire"
	"github.com/ringfence/ringfence/internal/marks"
)

// Request codes and versions of the first packet (manual, 55.7 "Message Formats").
const (
	sslRequest    = 80877103
	gssencRequest = 80877104
	cancelRequest = 80877102
	majorVersion  = 3
	newestMinor   = 2 // protocol 3.2, Postgres 18

	// maxStartupPacket is the most bytes of a startup packet, with the length itself. It is the
	// server's own limit (MAX_STARTUP_PACKET_LENGTH).
	maxStartupPacket = 10_004
)

// startup is a client's first request: for a session, or if cancel is set, to cancel a query.
type startup struct {
	packet []byte // as the client sent it, with its length
	cancel bool

	minor  uint16
	params []wire.Param
}

// What these clients get is no answer, as from Postgres.
var (
	errDirectTLS = errors.New("the client starts with TLS, for which this guard has no certificate")
	errLength    = errors.New("invalid length of startup packet: whoever sent it does not speak the protocol")
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
	if length < 8 || length > maxStartupPacket {
		return nil, 0, errLength
	}
	packet = make([]byte, length)
	if _, err := io.ReadFull(r, packet); err != nil {
		return nil, 0, err
	}
	return packet, binary.BigEndian.Uint32(packet[4:]), nil
}

func parseStartup(packet []byte, code uint32) (*startup, error) {
	if major := code >> 16; major != majorVersion {
		return nil, wire.Violation("unsupported frontend protocol %d.%d: this guard speaks 3.0 to 3.%d",
			major, code&0xffff, newestMinor)
	}
	s := &startup{packet: packet, minor: uint16(code)}
	seen := map[string]bool{}
	body := packet[8:]
	for {
		name, rest, ok := wire.CString(body)
		if !ok {
			return nil, wire.Violation("invalid startup packet layout: expected terminator as last byte")
		}
		if name == "" {
			if len(rest) > 0 {
				return nil, wire.Violation("invalid startup packet layout: bytes behind the terminator")
			}
			return s, nil
		}
		value, rest, ok := wire.CString(rest)
		if !ok {
			return nil, wire.Violation("invalid startup packet layout: a name without a value")
		}
		if seen[name] {
			return nil, wire.Violation("startup parameter given twice: %.60q", name)
		}
		seen[name] = true
		s.params = append(s.params, wire.Param{Name: name, Value: value})
		body = rest
	}
}

func (s *startup) get(name string) string {
	for _, p := range s.params {
		if p.Name == name {
			return p.Value
		}
	}
	return ""
}

// negotiated returns the packet for the server, and what was removed from the client's: protocol
// options (_pq_.…), none of which the guard knows, and a minor version above newestMinor. If they
// were forwarded, server and client could agree on messages that the relay cannot follow. A request
// without them is forwarded unchanged.
func (s *startup) negotiated() (packet []byte, unknown []string, capped bool) {
	capped = s.minor > newestMinor
	kept := make([]wire.Param, 0, len(s.params))
	for _, p := range s.params {
		if strings.HasPrefix(p.Name, "_pq_.") {
			unknown = append(unknown, p.Name)
			continue
		}
		kept = append(kept, p)
	}
	if !capped && len(unknown) == 0 {
		return s.packet, nil, false
	}
	return encodeStartup(s.granted(), kept), unknown, capped
}

// granted returns the minor version for the server.
func (s *startup) granted() uint16 { return min(s.minor, newestMinor) }

func encodeStartup(minor uint16, params []wire.Param) []byte {
	b := make([]byte, 4, maxStartupPacket)
	b = binary.BigEndian.AppendUint32(b, majorVersion<<16|uint32(minor))
	for _, p := range params {
		b = append(append(b, p.Name...), 0)
		b = append(append(b, p.Value...), 0)
	}
	b = append(b, 0)
	binary.BigEndian.PutUint32(b, uint32(len(b)))
	return b
}

// holder names a client as the holder of its token, until the coordinator has a better name.
func (s *startup) holder(client net.Conn) string {
	c := s.client(client)
	who := c.User + "@" + c.Address
	if c.Application != "" {
		who += " (" + c.Application + ")"
	}
	return who
}

// client describes a client by what it says of itself.
func (s *startup) client(c net.Conn) marks.Client {
	return guard.Describe(c, s.get("user"), s.get("application_name"))
}
