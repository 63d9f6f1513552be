package redis

import (
	"cmp"

	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/marks"
)

// remember keeps what a command that has succeeded says of the client.
func (c *conn) remember(args [][]byte) {
	if name, ok := clientName(args); ok {
		c.name = string(name)
	}
	if library, ok := libraryName(args); ok {
		c.library = library
	}
	if user, ok := loginUser(args); ok {
		c.loginAs = user
	}
}

// who describes the client, whose next command this is.
func (c *conn) who(args [][]byte) marks.Client {
	user, name := c.loginAs, c.name
	if u, ok := loginUser(args); ok {
		user = u
	}
	if n, ok := clientName(args); ok {
		name = string(n)
	}
	return guard.Describe(c.client, user, cmp.Or(name, c.library))
}

// libraryName returns the name of the client's driver: CLIENT SETINFO LIB-NAME.
func libraryName(args [][]byte) (name string, ok bool) {
	if len(args) == 4 && equalFold(args[0], "CLIENT") && equalFold(args[1], "SETINFO") &&
		equalFold(args[2], "LIB-NAME") {
		return string(args[3]), true
	}
	return "", false
}
