package redisguard

import (
	"cmp"

	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/marks"
)

// said is what the client has said of itself, in commands that have succeeded.
type said struct {
	name    string // the connection name that it has chosen
	library string // the name of its driver, if it has named it
	loginAs string // the user that it has logged in as
}

// remember keeps what a command says: CLIENT SETNAME, HELLO, CLIENT SETINFO LIB-NAME, AUTH. After
// RESET only the library is left.
func (s *said) remember(args [][]byte) {
	if equalFold(args[0], "RESET") {
		s.name, s.loginAs = "", ""
	}
	if name, ok := clientName(args); ok {
		s.name = string(name)
	}
	if user, ok := loginUser(args); ok {
		s.loginAs = user
	}
	if len(args) == 4 && equalFold(args[0], "CLIENT") && equalFold(args[1], "SETINFO") &&
		equalFold(args[2], "LIB-NAME") {
		s.library = string(args[3])
	}
}

// who describes the client, whose next command this is.
func (c *conn) who(args [][]byte) marks.Client {
	next := c.said
	next.remember(args)
	return guard.Describe(c.client, next.loginAs, cmp.Or(next.name, next.library))
}
