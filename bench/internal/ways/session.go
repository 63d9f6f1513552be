package ways

import (
	"context"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks/pgmarks"
)

// sessions is the database that admits sessions itself.
const sessions = "sessions"

// admitDirectly adds the way of direct sessions: another database of the same server, with a login
// trigger. Before Postgres 17 there is none.
func (s *Postgres) admitDirectly(ctx context.Context, progress io.Writer) error {
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
	claim := fence.Claim{Resource: Resource, Token: 1, Holder: "bench"}
	raiser := pgmarks.NewRaiser(s.Server.URL("guard", sessions))
	if err := raiser.Raise(ctx, claim); err != nil {
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
