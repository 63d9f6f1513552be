package pgguard

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/guard/pgguard/databases"
	"github.com/ringfence/ringfence/internal/guard/pgguard/wire"
	"github.com/ringfence/ringfence/internal/guard/relay"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/refusal"
)

// errRefusedByServer means that the server refused the login and the client has its error.
var errRefusedByServer = errors.New("the server refused the login")

// login is a client's way to a session. It relays in lockstep: it reads a message of the client
// only when the server requests one.
type login struct {
	p          *Protocol
	client     *guard.Client
	fromClient *bufio.Reader
	out        *bufio.Writer // to the client
	server     net.Conn
	until      context.Context // ends when the server is no longer the primary of several
	fromServer *bufio.Reader

	startup *startup
	at      *databases.Selected
	claims  []marks.Presented

	unknown []string // protocol options that were removed from the client's packet
	capped  bool     // the client's minor version was lowered

	bindable bool // the client may use channel binding
	unbound  bool // the server has offered it, and the offer was removed

	asked  bool   // the server has asked the client for a password
	rounds int    // how often room was made for the login
	feed   func() // ends what the login has others wait for (Seat.Starve); may be nil

	pid   uint32
	ready []byte // the ReadyForQuery that is held back
}

// connect dials the upstream connection of a client, once there is a slot for its login and unless
// its claims are known to be stale. It checks the claims twice, because the mark may rise while the
// client waits for the slot: a crowd of deposed clients costs the server no login.
func (l *login) connect(ctx context.Context) (err error) {
	if err := l.claim(); err != nil {
		return err
	}
	if err := l.precheck(ctx); err != nil {
		return err
	}
	if err := l.client.Seat.Login(ctx); err != nil {
		return err
	}
	if err := l.precheck(ctx); err != nil { // the wait for a slot may have been long
		return err
	}
	l.prepareRoom(ctx)
	return l.dial(ctx)
}

// dial opens the upstream connection of a client.
func (l *login) dial(ctx context.Context) (err error) {
	l.server, l.until, err = l.p.o.Store.Dial(ctx)
	if err != nil {
		return fmt.Errorf("the guard cannot reach Postgres: %w", err)
	}
	l.out, l.fromServer = bufio.NewWriter(l.client), bufio.NewReader(l.server)
	l.bindable = sameCertificate(l.p.o.TLS, l.client.Encrypted(), encryption(l.server))
	return nil
}

// whilePrimary ends what waits for the server once another one is the primary. It would keep a slot
// for logins otherwise, as long as a login may take.
func (l *login) whilePrimary(do func() error) error {
	unhook := context.AfterFunc(l.until, func() { _ = l.server.SetDeadline(relay.Past) })
	defer unhook()
	err := do()
	if err != nil && l.until.Err() != nil {
		return wire.Moved(true)
	}
	return err
}

// claim reads the client's claims, if this guard serves them.
func (l *login) claim() (err error) {
	o, s := l.p.o, l.startup
	if l.claims, err = s.claims(s.holder(l.client)); err != nil {
		return err
	}
	if len(l.claims) == 0 {
		return refusal.NoOption()
	}
	for _, c := range l.claims {
		if len(o.Resources) > 0 && !slices.Contains(o.Resources, c.Resource) {
			return refusal.UnknownResource(c.Under(""), o.Resources)
		}
	}
	return l.p.serves(l.at.Name)
}

// precheck refuses claims that are known to be stale in the database. Nobody knows any in a
// database that is not open.
func (l *login) precheck(ctx context.Context) error {
	_, err := l.at.Ask(func(a *marks.Admission) error { return a.Precheck(ctx, l.claims) })
	return err
}

// packet returns the startup packet for the server.
func (l *login) packet() (packet []byte) {
	packet, l.unknown, l.capped = l.startup.negotiated()
	return packet
}

// run relays until the server sends ReadyForQuery, which it holds back.
func (l *login) run() error {
	if _, err := l.server.Write(l.packet()); err != nil {
		return err
	}
	negotiated := false
	for {
		kind, message, err := wire.Read(l.fromServer)
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
			if l.pid == 0 { // admission identifies the session by it
				return wire.Violation("the server did not name its backend (BackendKeyData)")
			}
			return nil
		}
		if kind == 'R' {
			message = l.withoutBinding(message)
		}
		if kind == 'E' && lacksRoom(message[5:]) {
			return &fullError{message}
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
			return wire.Violation("BackendKeyData of %d bytes", len(body))
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
		return wire.Violation("authentication request of %d bytes", len(body))
	}
	switch kind := binary.BigEndian.Uint32(body); kind {
	case authOk, authSASLFinal:
		return nil
	case authCleartextPassword, authMD5Password, authSASL, authSASLContinue:
		l.client.Seat.Waiting()
		defer l.client.Seat.Working()
		l.asked = true
		if err := l.out.Flush(); err != nil {
			return err
		}
		return l.relayAnswer(kind)
	default:
		return fmt.Errorf("the server asks for authentication of kind %d, which the guard "+
			"does not relay (it relays trust, password, md5 and SCRAM)", kind)
	}
}

// relayAnswer relays the client's answer to a request of this kind.
func (l *login) relayAnswer(request uint32) error {
	kind, message, err := wire.Read(l.fromClient)
	if err != nil {
		return err
	}
	if kind == 'X' {
		return io.EOF
	}
	if kind != 'p' {
		return wire.Violation("message %q where the answer to an authentication request was due", kind)
	}
	if request == authSASL {
		if err := l.checkBinding(message); err != nil {
			return err
		}
	}
	_, err = l.server.Write(message)
	return err
}

// sendNegotiation reports to the client what was removed from its request, when the server itself
// has nothing to report.
func (l *login) sendNegotiation() error {
	if !l.capped && len(l.unknown) == 0 {
		return nil
	}
	return wire.Send(l.out, &pgproto3.NegotiateProtocolVersion{
		NewestMinorProtocol: wire.MajorVersion<<16 | uint32(l.startup.granted()),
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
