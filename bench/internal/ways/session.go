package ways

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks/pgmarks"
	"github.com/ringfence/ringfence/store/pgstore"
)

// sessions is the database that admits sessions itself.
const sessions = "sessions"

// AdmitDirectly adds the way of direct sessions: another database of the same server, with a login
// trigger. Before Postgres 17 there is none.
func (s *Postgres) AdmitDirectly(ctx context.Context, progress io.Writer) error {
	var version int
	conn, err := pgx.Connect(ctx, s.Server.URL("postgres", database))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	const ask = "select current_setting('server_version_num')::integer"
	if err := conn.QueryRow(ctx, ask).Scan(&version); err != nil {
		return err
	}
	if version < 170000 {
		_, err := fmt.Fprintln(progress, "without direct sessions: they need Postgres 17, first in PATH")
		return err
	}
	if err := s.Exec(ctx, "create database "+sessions); err != nil {
		return err
	}
	own := s.Server.URL("postgres", sessions)
	if err := pgmarks.Install(ctx, own, "guard"); err != nil {
		return err
	}
	s.raiser = pgstore.NewRaiser(s.Server.URL("guard", sessions), nil)
	if err := s.RaiseDirectly(ctx, 1); err != nil {
		return err
	}
	err = Exec(ctx, own, "grant create on schema public to "+User,
		fmt.Sprintf("select ringfence.direct('{%s}')", User))
	s.databases = append(s.databases, sessions)
	s.Ways = append(s.Ways, &Way{
		Name: Session, Addr: s.Server.Addr(), TLS: s.tls != nil, Database: sessions,
	})
	return err
}

// RaiseDirectly raises the mark of direct sessions to a token, as a leader does before it logs in.
func (s *Postgres) RaiseDirectly(ctx context.Context, token int64) error {
	return s.raiser.Raise(ctx, fence.Claim{
		Resource: Resource, Token: fence.Token(token), Holder: "bench",
	})
}

// SessionURL is the URL of a direct session under a token.
func (s *Postgres) SessionURL(token int64) string {
	return s.Server.URL(User, sessions) + "&options=" + escapedOptions(Resource, token)
}

// SessionsAdminURL is the URL of the database of direct sessions for its superuser.
func (s *Postgres) SessionsAdminURL() string { return s.Server.URL("postgres", sessions) }

// HasSessions reports whether the server admits direct sessions.
func (s *Postgres) HasSessions() bool { return slices.Contains(s.databases, sessions) }
