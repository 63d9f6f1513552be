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

// Most bytes of one message during login; Postgres itself takes password messages of up to 64 KiB.
const loginMost = 1 << 16

// errRefusedByServer: the server's own error went to the client.
var errRefusedByServer = errors.New("the server refused the login")

// login is the relay of a login, in lockstep: a message of the client is read only when the server asks for one.
type login struct {
	client     *guard.Client
	fromClient *bufio.Reader
	out        *bufio.Writer // to the client
	server     net.Conn
	fromServer *bufio.Reader

	packet  []byte   // what goes upstream first
	unknown []string // protocol options that we took out
	capped  bool     // whether we took the version down
	minor   uint16   // the minor version that went upstream

	pid   uint32
	ready []byte // the ReadyForQuery that is held back
}

func newLogin(c *guard.Client, from *bufio.Reader, server net.Conn, s *startup) *login {
	l := &login{
		client: c, fromClient: from, out: bufio.NewWriter(c),
		server: server, fromServer: bufio.NewReader(server),
	}
	l.packet, l.unknown, l.capped = s.negotiated()
	l.minor = s.granted()
	return l
}

// run relays until the server says ReadyForQuery, which it holds back.
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
				err = l.tellNegotiation()
			}
			if err != nil {
				return err
			}
		}
		if kind == 'Z' {
			l.ready = message
			return l.named()
		}
		if _, err := l.out.Write(message); err != nil {
			return err
		}
		if err := l.step(kind, message[5:]); err != nil {
			return errors.Join(err, l.out.Flush())
		}
	}
}

// serverError tells a server that went away from a client that did.
func serverError(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	return fmt.Errorf("the server closed the connection during login: %v", err)
}

// step does what a message of the server asks for.
func (l *login) step(kind byte, body []byte) error {
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
	case 'S', 'N', 'v':
	default:
		return fmt.Errorf("the server sent message %q during login", kind)
	}
	return nil
}

// Kinds of authentication request (manual, 55.7, Authentication*).
const (
	authOk                = 0
	authCleartextPassword = 3
	authMD5Password       = 5
	authSASL              = 10
	authSASLContinue      = 11
	authSASLFinal         = 12
)

// authentication passes one answer of the client on, where the server waits for one.
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
		return l.answer()
	default:
		return fmt.Errorf("the server asks for authentication of kind %d, which the guard does not relay (it relays trust, password, md5 and SCRAM)", kind)
	}
}

// abandon closes the leg of a login that has failed, and only then lets the next one in.
func (l *login) abandon() {
	_ = l.server.Close()
	l.client.Seat.EndLogin()
}

func (l *login) answer() error {
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
	_, err = l.server.Write(message)
	return err
}

// named checks that the server told which backend this is, for that is what admission is about.
func (l *login) named() error {
	if l.pid == 0 {
		return violation("the server did not name its backend (BackendKeyData)")
	}
	return nil
}

// tellNegotiation tells the client what we took out of its request, when the server had no reason to.
func (l *login) tellNegotiation() error {
	if !l.capped && len(l.unknown) == 0 {
		return nil
	}
	return send(l.out, &pgproto3.NegotiateProtocolVersion{
		NewestMinorProtocol: majorVersion<<16 | uint32(l.minor), UnrecognizedOptions: l.unknown,
	})
}

// mergeNegotiation adds what we took out to what the server does not know.
func (l *login) mergeNegotiation(message []byte) ([]byte, error) {
	var v pgproto3.NegotiateProtocolVersion
	if err := v.Decode(message[5:]); err != nil {
		return nil, err
	}
	v.UnrecognizedOptions = append(v.UnrecognizedOptions, l.unknown...)
	return v.Encode(nil)
}

// readMessage reads one message whole: its kind, and the message with its header.
func readMessage(r *bufio.Reader) (kind byte, message []byte, err error) {
	head, err := r.Peek(5)
	if err != nil {
		return 0, nil, err
	}
	length := binary.BigEndian.Uint32(head[1:])
	if length < 4 || length > loginMost {
		return 0, nil, violation("message %q of %d bytes during login", head[0], length)
	}
	kind = head[0]
	message = make([]byte, 1+length)
	_, err = io.ReadFull(r, message)
	return kind, message, err
}
