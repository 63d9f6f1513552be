package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/guard/postgres/readonly"
	"github.com/ringfence/ringfence/internal/guard/postgres/wire"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/refusal"
)

// serveReadOnly serves a client that has logged in without a token, until it leaves.
func (l *login) serveReadOnly(ctx context.Context) error {
	if err := l.checkReadOnly(ctx); err != nil {
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
	err := r.Serve(ctx)
	cut := errors.Is(context.Cause(ctx), guard.ErrDrainTimeout) || errors.Is(context.Cause(ctx), guard.Evicted)
	if cut && r.State() == "active" {
		l.cancelQuery(ctx)
	}
	return err
}

// cancelQuery has the server end what a reader's session runs, whose connection is closed. Postgres would look at
// that only after the query. If it fails, the query runs on.
func (l *login) cancelQuery(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	server, err := l.p.o.Store.Dial(ctx)
	if err != nil {
		return
	}
	defer server.Close()
	packet := binary.BigEndian.AppendUint32(nil, uint32(8+len(l.key)))
	packet = binary.BigEndian.AppendUint32(packet, wire.CancelRequest)
	_ = sendCancel(ctx, server, append(packet, l.key...))
}

// checkReadOnly refuses a session that cannot be kept from writing.
func (l *login) checkReadOnly(ctx context.Context) error {
	switch s, own := l.startup, l.p.o.Store.Database(); {
	case s.Get("replication") != "":
		return refusal.NoReadOnly("it is a replication connection")
	case l.p.o.Another == nil && s.database() != own:
		return refusal.NoReadOnly(fmt.Sprintf("it asks for database %q, and this guard is for %q",
			s.database(), own))
	}
	// The server reports only whether the role is a superuser that is set now, and that may change.
	switch super, err := l.p.o.Store.CanBeSuperuser(ctx, l.startup.Get("user")); {
	case err != nil:
		return err
	case super:
		return refusal.NoReadOnly(
			"its role can be a superuser, which can write without a transaction, such as files of the server")
	}
	if name, value := readonly.Changed(l.reported); name != "" {
		return refusal.NoReadOnly(fmt.Sprintf("the server says that %s is %q; it has to be Postgres 14 or later",
			name, value))
	}
	return nil
}
