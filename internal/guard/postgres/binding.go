package postgres

import (
	"bytes"
	"encoding/binary"

	"github.com/jackc/pgx/v5/pgproto3"
)

// Channel binding ties a SCRAM login to the certificate of the server (RFC 5802, section 6; RFC
// 5929, "tls-server-end-point"). The guard ends TLS on both sides and relays the login between them,
// so it works only if client and guard see the same certificate, that is if the guard has the
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
	return encoded(offer)
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
var errBinding = &loginError{
	code: invalidAuthorization,
	what: "the client wants channel binding, which the guard's TLS rules out",
	why: "client and server see different certificates, because the guard ends TLS on both sides; " +
		"nothing was written",
	hint: "set channel_binding=disable in the client (PGCHANNELBINDING), or give the guard the server's own " +
		"certificate and key (GUARD_TLS_CERT, GUARD_TLS_KEY), or let the guard reach the server by a Unix socket",
}
