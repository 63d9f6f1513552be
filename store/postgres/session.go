package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/store"
)

// Leg is a client's own connection to the server as the guard knows it.
type Leg struct {
	PID      uint32   // from BackendKeyData
	User     string   // from the startup packet
	Database string   // from the startup packet; empty means the user's name
	Local    net.Addr // our end of it
}

// Identify finds the backend behind a leg and returns it as a session: its pid and when it started. It fails when the
// server's list of backends does not show that very connection, which is what a pooler between guard and Postgres, or
// an address that leads to more than one server, looks like.
func (s *Store) Identify(ctx context.Context, l Leg) (store.Session, error) {
	var start *time.Time
	var user, database *string
	var port *int32
	direct, beyond := false, false
	err := s.retry(ctx, func() error {
		conn, err := s.pool.Acquire(ctx)
		if err != nil {
			return err
		}
		defer conn.Release()
		direct = isDirect(conn.Conn())
		return conn.QueryRow(ctx, `select a.backend_start, a.usename, a.datname, a.client_port,
		        coalesce((select r.rolsuper and not own.rolsuper from pg_roles r, pg_roles own
		                   where r.oid = a.usesysid and own.rolname = current_user), false)
		    from pg_stat_activity a where a.pid = $1`, int64(l.PID)).Scan(&start, &user, &database, &port, &beyond)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return store.Session{}, pooled(fmt.Sprintf("the server has no backend with the pid %d that it gave the client", l.PID))
	}
	if err != nil {
		return store.Session{}, err
	}
	if start == nil {
		return store.Session{}, store.Setup("the guard's role cannot see other roles' sessions", "GRANT pg_read_all_stats TO the guard's role (guard install does)")
	}
	want := l.Database
	if want == "" {
		want = l.User
	}
	if user == nil || *user != l.User || (database != nil && *database != want && want != "replication") {
		return store.Session{}, pooled(fmt.Sprintf("backend %d belongs to another login than the client's", l.PID))
	}
	if tcp, ok := l.Local.(*net.TCPAddr); ok && direct && (port == nil || int(*port) != tcp.Port) {
		return store.Session{}, pooled(fmt.Sprintf("backend %d is not at the other end of the client's connection", l.PID))
	}
	if beyond {
		return store.Session{}, superuser(*user)
	}
	return store.Session{ID: int64(l.PID), Birth: birth(*start)}, nil
}

// superuser refuses a session that could not be ended later, before it can keep every successor out.
func superuser(role string) error {
	return &fence.Refusal{
		Reason:  fence.Unrevoked,
		Message: fmt.Sprintf("role %q is a superuser, whose sessions the guard could not end", role),
		Detail:  "only a superuser ends a superuser's session, and the guard's role is none",
		Hint:    "let leaders log in as an ordinary role",
	}
}

// pooled is the error of a connection that does not lead straight to one server.
func pooled(what string) error {
	return store.Setup(what, "put the guard directly in front of one Postgres server: a pooler such as PgBouncer goes between application and guard's clients, never between guard and Postgres")
}

const birthForm = "2006-01-02T15:04:05.000000Z" // Postgres counts microseconds

func birth(t time.Time) string { return t.UTC().Format(birthForm) }

func parseBirth(s string) (time.Time, error) {
	t, err := time.Parse(birthForm, s)
	if err != nil {
		return t, fmt.Errorf("not a Postgres session: %w", err)
	}
	return t, nil
}
