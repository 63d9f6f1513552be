package postgres

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/ringfence/ringfence/internal/guard"
)

// maxLoginMessage is the size in bytes of the longest message during a login. Postgres accepts
// password messages of up to 64 KiB.
const maxLoginMessage = 1 << 16

// errRefusedByServer means that the server refused the login and the client has its error.
var errRefusedByServer = errors.New("the server refused the login")

// login relays a login in lockstep: it reads a message of the client only when the server requests
// one.
type login struct {
	client     *guard.Client
	fromClient *bufio.Reader
	out        *bufio.Writer // to the client
	server     net.Conn
	fromServer *bufio.Reader

	packet  []byte   // the startup packet for the server
	unknown []string // protocol options that were removed from the client's packet
	capped  bool     // the client's minor version was lowered
	minor   uint16   // the minor version in packet

	bindable bool // the client may use channel binding
	unbound  bool // the server has offered it, and the offer was removed

	pid  uint32
	role string // who has logged in, as the server says (session_authorization)

	reported map[string]string // the settings that the server has reported
	ready    []byte            // the ReadyForQuery that is held back
}

func newLogin(c *guard.Client, from *bufio.Reader, server net.Conn, s *startup) *login {
	l := &login{
		client: c, fromClient: from, out: bufio.NewWriter(c),
		server: server, fromServer: bufio.NewReader(server), reported: make(map[string]string),
	}
	l.packet, l.unknown, l.capped = s.negotiated()
	l.minor = s.granted()
	return l
}

// run relays until the server sends ReadyForQuery, which it holds back.
func (l *login) run() error {
	if _, err := l.server.Write(l.packet); err != nil {
		return err
	}
	negotiated := false
	for {
		kind, message, err := readMessage(l.fromServer)
		if err != nil {
			return serverError(err)
		}
		if !negotiated && kind != 'E' {
			negotiated = true
			if kind == 'v' {
				message, err = l.mergeNegotiation(message)
			} else {
				err = l.sendNegotiation()
			}
			if err != nil {
				return err
			}
		}
		if kind == 'Z' {
			l.ready = message
			return l.checkBackend()
		}
		if kind == 'R' {
			message = l.withoutBinding(message)
		}
		if _, err := l.out.Write(message); err != nil {
			return err
		}
		if err := l.handle(kind, message[5:]); err != nil {
			return errors.Join(err, l.out.Flush())
		}
	}
}

// serverError wraps an error of reading from the server, so that it cannot be taken for one of the
// client, such as io.EOF. A deadline is the guard's own and stays as it is.
func serverError(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	return fmt.Errorf("the server closed the connection during login: %v", err)
}

// handle acts on a message of the server.
func (l *login) handle(kind byte, body []byte) error {
	switch kind {
	case 'R':
		return l.authentication(body)
	case 'K':
		if len(body) < 8 {
			return violation("BackendKeyData of %d bytes", len(body))
		}
		l.pid = binary.BigEndian.Uint32(body)
	case 'E':
		return errRefusedByServer
	case 'S':
		var s pgproto3.ParameterStatus
		if s.Decode(body) == nil {
			l.reported[s.Name] = s.Value
			l.role = l.reported["session_authorization"]
		}
	case 'N', 'v':
	default:
		return fmt.Errorf("the server sent message %q during login", kind)
	}
	return nil
}

// Kinds of authentication requests (manual, 55.7, Authentication*).
const (
	authOk                = 0
	authCleartextPassword = 3
	authMD5Password       = 5
	authSASL              = 10
	authSASLContinue      = 11
	authSASLFinal         = 12
)

// authentication relays the client's answer to an authentication request, if it needs one.
func (l *login) authentication(body []byte) error {
	if len(body) < 4 {
		return violation("authentication request of %d bytes", len(body))
	}
	switch kind := binary.BigEndian.Uint32(body); kind {
	case authOk, authSASLFinal:
		return nil
	case authCleartextPassword, authMD5Password, authSASL, authSASLContinue:
		l.client.Seat.Waiting()
		defer l.client.Seat.Working()
		if err := l.out.Flush(); err != nil {
			return err
		}
		return l.relayAnswer(kind)
	default:
		return fmt.Errorf("the server asks for authentication of kind %d, which the guard "+
			"does not relay (it relays trust, password, md5 and SCRAM)", kind)
	}
}

// abandon closes the upstream connection of a failed login, and only then frees its login slot.
func (l *login) abandon() {
	_ = l.server.Close()
	l.client.Seat.EndLogin()
}

// relayAnswer relays the client's answer to a request of this kind.
func (l *login) relayAnswer(request uint32) error {
	kind, message, err := readMessage(l.fromClient)
	if err != nil {
		return err
	}
	if kind == 'X' {
		return io.EOF
	}
	if kind != 'p' {
		return violation("message %q where the answer to an authentication request was due", kind)
	}
	if request == authSASL {
		if err := l.checkBinding(message); err != nil {
			return err
		}
	}
	_, err = l.server.Write(message)
	return err
}

// checkBackend checks that the server named its backend: admission identifies the session by it.
func (l *login) checkBackend() error {
	if l.pid == 0 {
		return violation("the server did not name its backend (BackendKeyData)")
	}
	return nil
}

// sendNegotiation reports to the client what was removed from its request, when the server itself
// has nothing to report.
func (l *login) sendNegotiation() error {
	if !l.capped && len(l.unknown) == 0 {
		return nil
	}
	return send(l.out, &pgproto3.NegotiateProtocolVersion{
		NewestMinorProtocol: majorVersion<<16 | uint32(l.minor),
		UnrecognizedOptions: l.unknown,
	})
}

// mergeNegotiation adds the removed options to those that the server reports as unknown.
func (l *login) mergeNegotiation(message []byte) ([]byte, error) {
	var v pgproto3.NegotiateProtocolVersion
	if err := v.Decode(message[5:]); err != nil {
		return nil, err
	}
	v.UnrecognizedOptions = append(v.UnrecognizedOptions, l.unknown...)
	return v.Encode(nil)
}

// readMessage reads one message. It returns the kind, and the whole message with its header.
func readMessage(r *bufio.Reader) (kind byte, message []byte, err error) {
	head, err := r.Peek(5)
	if err != nil {
		return 0, nil, err
	}
	length := binary.BigEndian.Uint32(head[1:])
	if length < 4 || length > maxLoginMessage {
		return 0, nil, violation("message %q of %d bytes during login", head[0], length)
	}
	kind = head[0]
	message = make([]byte, 1+length)
	_, err = io.ReadFull(r, message)
	return kind, message, err
}
