package redisguard

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/refusal"
)

// With TLS.VerifyName a client's certificate names its user. See the package documentation.

// defaultUser is the user of a connection that has not logged in, and of AUTH with a password
// alone.
const defaultUser = "default"

// beforeLogin are the commands that a client may send before it has logged in as the user of its
// certificate. None of them reads data.
var beforeLogin = map[string]bool{"AUTH": true, "HELLO": true, "QUIT": true}

// checkCertificate refuses a command of the handshake that the client's certificate does not allow.
// Each command is answered before the next one is sent, and no transaction is open before the
// login. So a login without an error has succeeded.
func (c *conn) checkCertificate(args [][]byte) *fence.Refusal {
	if refused := changesUser(c.only, args, true); refused != nil {
		return refused
	}
	if c.only.Allows(cmp.Or(c.loginAs, defaultUser)) || beforeLogin[string(upper(nil, args[0]))] {
		return nil
	}
	return refusal.OtherUser(c.only.String(),
		commandName(args)+" was not executed, because this session has not logged in as that user")
}

// changesUser refuses a command that could log in another user than the certificate's. It returns
// nil for all others. If args are not the whole command, the rest could name anybody.
func changesUser(only guard.OneUser, args [][]byte, whole bool) *fence.Refusal {
	if only.Everybody() || whole && keepsUser(only, args) || !canLogIn(args[0]) {
		return nil
	}
	return refusal.OtherUser(only.String(),
		commandName(args)+" was not executed, because it could log in somebody else")
}

func canLogIn(name []byte) bool {
	return equalFold(name, "AUTH") || equalFold(name, "HELLO") || equalFold(name, "RESET")
}

// keepsUser reports whether AUTH, HELLO or RESET logs in nobody but the user of the certificate.
func keepsUser(only guard.OneUser, args [][]byte) bool {
	switch {
	case equalFold(args[0], "HELLO"):
		h := parseHello(args)
		another := func(user []byte) bool { return !only.Allows(string(user)) }
		return !h.unknown && !slices.ContainsFunc(h.users, another)
	case equalFold(args[0], "AUTH") && len(args) > 2:
		return only.Allows(string(args[1]))
	}
	return only.Allows(defaultUser)
}

// checkIdentified refuses a session that is not one of the certificate's user, as the server says.
func (c *conn) checkIdentified(user string) error {
	if c.only.Allows(user) {
		return nil
	}
	return refusal.OtherUser(c.only.String(),
		fmt.Sprintf("nothing was admitted, because the session is one of user %q", user))
}
