package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/internal/guard/postgres/readonly"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/refusal"
)

// serveReadOnly serves a client that has logged in without a token, until it leaves.
func (l *login) serveReadOnly(ctx context.Context) error {
	if err := l.checkReadOnly(); err != nil {
		return l.fail(ctx, err)
	}
	l.client.Seat.EndLogin() // the role's own limit of connections counts from now on
	_, _ = l.out.Write(l.ready)
	if l.out.Flush() != nil {
		_ = l.server.Close()
		return nil
	}
	_ = l.client.SetDeadline(time.Time{})
	_ = l.server.SetDeadline(time.Time{})
	r := readonly.New(l.client, l.server, l.fromClient, l.fromServer, l.reported)
	remove := l.p.readers.add(r, reader{l.startup.database(), l.pid, marks.ClientOf(ctx), time.Now()})
	defer remove()
	return r.Serve(ctx)
}

// checkReadOnly refuses a session that cannot be kept from writing.
func (l *login) checkReadOnly() error {
	switch s, own := l.startup, l.p.o.Store.Database(); {
	case s.get("replication") != "":
		return refusal.NoReadOnly("it is a replication connection")
	case l.p.o.Another == nil && s.database() != own:
		return refusal.NoReadOnly(fmt.Sprintf("it asks for database %q, and this guard is for %q",
			s.database(), own))
	case l.reported["is_superuser"] != "off":
		return refusal.NoReadOnly("a superuser can write without a transaction, such as files of the server")
	}
	if name, value := readonly.Changed(l.reported); name != "" {
		return refusal.NoReadOnly(fmt.Sprintf("the server says that %s is %q; it has to be Postgres 14 or later",
			name, value))
	}
	return nil
}
