package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/guard/postgres/console"
	"github.com/ringfence/ringfence/internal/guard/postgres/wire"
)

// consoleDatabase is the database that a client without a token asks for to get the console. With a
// token it gets the real database of this name.
const consoleDatabase = "ringfence"

// wantsConsole reports whether a client that claims nothing asks for the console.
func (p *Protocol) wantsConsole(s *startup) bool {
	return len(p.o.Operators) > 0 && s.database() == consoleDatabase && s.Get("replication") == ""
}

// consoleLogin returns the startup packet with which the server checks who a client of the console
// is. It names a database that exists. It has none of the client's options, and settings that fit
// what the console sends.
func (p *Protocol) consoleLogin(s *startup) []byte {
	return wire.EncodeStartup(s.granted(), []wire.Param{
		{Name: "user", Value: s.Get("user")}, {Name: "database", Value: p.o.Store.Database()},
		{Name: "application_name", Value: "ringfence console"},
		{Name: "client_encoding", Value: "UTF8"}, {Name: "DateStyle", Value: "ISO"},
	})
}

// serveConsole answers the statements of a client that has logged in, if its role may use the
// console. It closes the upstream connection before it reads what the client sends after the login,
// so none of it can reach the database.
func (l *login) serveConsole(ctx context.Context) error {
	l.abandon()
	if role := l.reported["session_authorization"]; !slices.Contains(l.p.o.Operators, role) {
		return l.fail(ctx, &wire.Error{
			Code:    wire.InsufficientPrivilege,
			Message: fmt.Sprintf("role %q may not use the console of the guard", role),
			Hint:    "an operator adds the role to GUARD_POSTGRES_OPERATORS",
		})
	}
	_, _ = l.out.Write(l.ready)
	_ = l.client.SetDeadline(time.Now().Add(guard.LastWordTime))
	if l.out.Flush() != nil {
		return nil
	}
	return console.Serve(ctx, l.client, l.fromClient, l.p.statements(), l.p.o.ConsoleIdle, l.p.o.LoginTimeout)
}
