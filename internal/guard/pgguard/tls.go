package pgguard

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"net"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/guard/pgguard/wire"
	"github.com/ringfence/ringfence/internal/refusal"
)

// encryption returns the state of TLS on a connection to the server; nil if there is none.
func encryption(server net.Conn) *tls.ConnectionState {
	encrypted, ok := server.(*tls.Conn)
	if !ok {
		return nil
	}
	state := encrypted.ConnectionState()
	return &state
}

// checkTLS refuses a client that has to use TLS and does not, or whose certificate does not name
// its role.
func (p *Protocol) checkTLS(c *guard.Client, s *startup) error {
	if p.o.TLS.Refuses(c) {
		return &wire.Error{
			Code: wire.InvalidAuthorization, Message: "this guard requires TLS", Detail: "the connection " +
				"is not encrypted",
			Hint: "set sslmode=require, or a stricter one, in the client",
		}
	}
	return checkRole(p.o.TLS.User(c), s.Get("user"))
}

// checkRole refuses a role that a client may not log in as. A name that is too long may become
// another role's, because the server cuts it off.
func checkRole(only guard.OneUser, role string) error {
	refused := &wire.Error{
		Code:    wire.InvalidAuthorization,
		Message: fmt.Sprintf("the certificate of the client is not one of role %q", role),
		Detail:  fmt.Sprintf("its common name is %q", only),
		Hint:    "connect as the role that the certificate names, or with another certificate",
	}
	switch {
	case only.Everybody():
		return nil
	case only.Nobody():
		r := refusal.NoCommonName()
		return &wire.Error{
			Code: wire.InvalidAuthorization, Message: r.Message, Detail: r.Detail, Hint: r.Hint,
		}
	case !only.Allows(role):
		return refused
	case len(role) > wire.MaxName:
		refused.Detail = fmt.Sprintf("the server would cut this name off after %d bytes", wire.MaxName)
		return refused
	}
	return nil
}

// failHandshake returns the error for the log. A client that left, or was too slow, is none.
func (p *Protocol) failHandshake(ctx context.Context, err *handshakeError) error {
	if why := endedByGuard(ctx, err); why != nil || ctx.Err() != nil {
		return why
	}
	return fmt.Errorf("TLS handshake with the client: %w", err)
}

// Channel binding ties a SCRAM login to the certificate of the server (RFC 5802, section 6; RFC
// 5929, "tls-server-end-point"). The guard ends TLS on both sides and relays the login between
// them, so it works only if client and guard see the same certificate, that is if the guard has the
// server's own one. Otherwise the guard removes it from the server's offer:
//
//	client's leg  server's leg   the client's channel_binding
//	plain         plain          disable, prefer; require fails at the client
//	TLS           plain          disable, prefer; require fails at the client
//	plain         TLS            disable, prefer; require fails at the client
//	TLS           TLS            disable; prefer is refused here, require fails at the client
//	TLS           TLS, with the same certificate: disable, prefer, require
//
// In the fourth row a client that prefers channel binding says that it would use it if the server
// could. The server can, so it takes this for an attack, and would refuse the login.
const boundSCRAM = "SCRAM-SHA-256-PLUS"

// withoutBinding removes channel binding from an AuthenticationSASL message.
func (l *login) withoutBinding(message []byte) []byte {
	if l.bindable || len(message) < 9 || binary.BigEndian.Uint32(message[5:]) != authSASL {
		return message
	}
	offer := &pgproto3.AuthenticationSASL{}
	for _, name := range bytes.Split(bytes.TrimRight(message[9:], "\x00"), []byte{0}) {
		if string(name) == boundSCRAM {
			l.unbound = true
			continue
		}
		offer.AuthMechanisms = append(offer.AuthMechanisms, string(name))
	}
	if !l.unbound {
		return message
	}
	return wire.Encode(offer)
}

// checkBinding refuses the first SASL message of a client that would use channel binding if the
// server offered it, where the guard has removed the offer and the server would notice.
func (l *login) checkBinding(message []byte) error {
	var first pgproto3.SASLInitialResponse
	notices := l.unbound && encryption(l.server) != nil && l.client.Encrypted() != nil
	if notices && first.Decode(message[5:]) == nil && bytes.HasPrefix(first.Data, []byte("y,")) {
		return errBinding
	}
	return nil
}

// errBinding refuses a login that the server would take for an attack.
var errBinding = &wire.Error{
	Code:    wire.InvalidAuthorization,
	Message: "the client wants channel binding, which the guard's TLS rules out",
	Detail: "client and server see different certificates, because the guard ends TLS on both " +
		"sides; nothing was written",
	Hint: "set channel_binding=disable in the client (PGCHANNELBINDING), or give the guard the " +
		"server's own certificate and key (GUARD_TLS_CERT, GUARD_TLS_KEY), or let the guard reach the " +
		"server by a Unix socket",
}
