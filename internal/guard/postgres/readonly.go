package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
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

// readers are the sessions without a token, for the console.
type readers struct {
	mu  sync.Mutex
	all map[*readonly.Session]reader
}

// reader is who has a session without a token.
type reader struct {
	database string
	pid      uint32
	client   marks.Client
	since    time.Time
}

// add lists a session until remove is called.
func (all *readers) add(r *readonly.Session, who reader) (remove func()) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.all == nil {
		all.all = make(map[*readonly.Session]reader)
	}
	all.all[r] = who
	return func() {
		all.mu.Lock()
		defer all.mu.Unlock()
		delete(all.all, r)
	}
}

// rows returns a row of SHOW SESSIONS for each, by database and age.
func (all *readers) rows() (rows [][]any) {
	type listed struct {
		reader
		state string
	}
	var list []listed
	all.mu.Lock()
	for r, who := range all.all {
		list = append(list, listed{who, r.State()})
	}
	all.mu.Unlock()
	slices.SortFunc(list, func(a, b listed) int {
		return cmp.Or(cmp.Compare(a.database, b.database), a.since.Compare(b.since), cmp.Compare(a.pid, b.pid))
	})
	for _, l := range list {
		rows = append(rows, []any{
			l.database, nil, nil, nil, int64(l.pid), l.client.Address, l.client.User, l.client.Application, l.since,
			"read-only, " + l.state,
		})
	}
	return rows
}
