package postgres

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/ringfence/ringfence/internal/guard"
)

// Request codes and versions of the first packet (manual, 55.7 "Message Formats").
const (
	sslRequest    = 80877103
	gssencRequest = 80877104
	cancelRequest = 80877102
	majorVersion  = 3
	newestMinor   = 2 // protocol 3.2, Postgres 18

	startupMost  = 10_004 // bytes with the length itself, as Postgres caps it (MAX_STARTUP_PACKET_LENGTH)
	tlsHandshake = 0x16   // the first byte of a TLS ClientHello: direct TLS, Postgres 17
)

// startup is what a client asks for: a session, or with cancel set the end of somebody's query.
type startup struct {
	packet []byte // as it came, with its length
	cancel bool

	minor  uint16
	params []param
}

type param struct{ name, value string }

// errDirectTLS: a client that starts with TLS is told nothing, for it would not understand it; Postgres does the same.
var errDirectTLS = errors.New("the client starts with TLS, which this guard does not speak")

// protocolError is what a client did that no Postgres server would take.
type protocolError struct{ what string }

func (e *protocolError) Error() string { return e.what }

func violation(format string, args ...any) error { return &protocolError{fmt.Sprintf(format, args...)} }

// readStartup reads packets until one starts a session or cancels a query. Requests for encryption are declined, once
// each and with nothing sent behind them, as a server without encryption does.
func readStartup(r *bufio.Reader, client io.Writer) (*startup, error) {
	declined := map[uint32]bool{}
	for {
		packet, code, err := readFirstPacket(r)
		if err != nil {
			return nil, err
		}
		switch code {
		case sslRequest, gssencRequest:
			if declined[code] || len(packet) != 8 {
				return nil, violation("a request for encryption that is repeated or has a body")
			}
			if r.Buffered() > 0 { // a man in the middle could have put them there, were this answered with yes
				return nil, violation("received unencrypted data after a request for encryption")
			}
			declined[code] = true
			if _, err := client.Write([]byte{'N'}); err != nil {
				return nil, err
			}
		case cancelRequest:
			if len(packet) < 16 {
				return nil, violation("a cancel request without a key")
			}
			return &startup{packet: packet, cancel: true}, nil
		default:
			return parseStartup(packet, code)
		}
	}
}

func readFirstPacket(r *bufio.Reader) (packet []byte, code uint32, err error) {
	head, err := r.Peek(4)
	if err != nil {
		if errors.Is(err, io.EOF) && len(head) > 0 {
			err = io.ErrUnexpectedEOF
		}
		return nil, 0, err
	}
	if head[0] == tlsHandshake {
		return nil, 0, errDirectTLS
	}
	length := binary.BigEndian.Uint32(head)
	if length < 8 || length > startupMost {
		return nil, 0, violation("invalid length of startup packet: %d bytes", length)
	}
	packet = make([]byte, length)
	if _, err := io.ReadFull(r, packet); err != nil {
		return nil, 0, err
	}
	return packet, binary.BigEndian.Uint32(packet[4:]), nil
}

func parseStartup(packet []byte, code uint32) (*startup, error) {
	if major := code >> 16; major != majorVersion {
		return nil, violation("unsupported frontend protocol %d.%d: this guard speaks 3.0 to 3.%d", major, code&0xffff, newestMinor)
	}
	s := &startup{packet: packet, minor: uint16(code)}
	seen := map[string]bool{}
	body := packet[8:]
	for {
		name, rest, ok := cstring(body)
		if !ok {
			return nil, violation("invalid startup packet layout: expected terminator as last byte")
		}
		if name == "" {
			if len(rest) > 0 {
				return nil, violation("invalid startup packet layout: bytes behind the terminator")
			}
			return s, nil
		}
		value, rest, ok := cstring(rest)
		if !ok {
			return nil, violation("invalid startup packet layout: a name without a value")
		}
		if seen[name] {
			return nil, violation("startup parameter given twice: %.60q", name)
		}
		seen[name] = true
		s.params = append(s.params, param{name, value})
		body = rest
	}
}

func cstring(b []byte) (s string, rest []byte, ok bool) {
	i := strings.IndexByte(string(b), 0)
	if i < 0 {
		return "", nil, false
	}
	return string(b[:i]), b[i+1:], true
}

func (s *startup) get(name string) string {
	for _, p := range s.params {
		if p.name == name {
			return p.value
		}
	}
	return ""
}

// negotiated is the packet for the server and what the client has to be told was taken out of it: protocol options
// (`_pq_.…`) that we do not know, and a minor version above ours. Were they passed on, server and client could agree on
// messages that the relay cannot follow. An untouched request is passed on byte by byte.
func (s *startup) negotiated() (packet []byte, unknown []string, capped bool) {
	capped = s.minor > newestMinor
	kept := make([]param, 0, len(s.params))
	for _, p := range s.params {
		if strings.HasPrefix(p.name, "_pq_.") {
			unknown = append(unknown, p.name)
			continue
		}
		kept = append(kept, p)
	}
	if !capped && len(unknown) == 0 {
		return s.packet, nil, false
	}
	return encodeStartup(s.granted(), kept), unknown, capped
}

// granted is the minor version that goes upstream.
func (s *startup) granted() uint16 { return min(s.minor, newestMinor) }

func encodeStartup(minor uint16, params []param) []byte {
	b := make([]byte, 4, startupMost)
	b = binary.BigEndian.AppendUint32(b, majorVersion<<16|uint32(minor))
	for _, p := range params {
		b = append(append(b, p.name...), 0)
		b = append(append(b, p.value...), 0)
	}
	b = append(b, 0)
	binary.BigEndian.PutUint32(b, uint32(len(b)))
	return b
}

// holder names a client for people until the coordinator knows better. The words are the client's own: they are cut and
// cleaned as the server does it with an application_name.
func (s *startup) holder(client net.Conn) string {
	who := printable(s.get("user")) + "@" + guard.Peer(client)
	if app := s.get("application_name"); app != "" {
		who += " (" + printable(app) + ")"
	}
	return who
}

func printable(s string) string {
	const most = 63 // NAMEDATALEN - 1
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s[:min(len(s), most)])
}
