package pgmarks

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/network/backoff"
	"github.com/ringfence/ringfence/internal/postgres/pglisten"
	"github.com/ringfence/ringfence/internal/postgres/pglogin"
)

const (
	relistenAfter = 5 * time.Second
	listenTime    = 10 * time.Second // bounds the connection and the LISTEN
	listenIdle    = time.Minute      // without a notification, before it reads what was sent elsewhere
)

// Listen calls raised with each resource of which somebody revokes many older sessions, until ctx
// ends, or until the server says that there is no such database. It has a connection of its own.
//
// It promises nothing: a notification may be lost, late, or sent by anyone who can log in. Whoever
// is called reads the mark, and revocation does not depend on the call.
func (s *Store) Listen(ctx context.Context, raised func(fence.Resource)) {
	for ctx.Err() == nil {
		if err := s.listen(ctx, raised); noDatabase(err) {
			return
		}
		backoff.Pause(ctx, relistenAfter)
	}
}

// noDatabase reports whether the server says that there is no such database.
func noDatabase(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.Code == "3D000"
}

// listen returns when the connection is lost.
func (s *Store) listen(ctx context.Context, raised func(fence.Resource)) error {
	bounded, cancel := context.WithTimeout(ctx, listenTime)
	defer cancel()
	primary, until, err := s.primary(bounded, untilAsked)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(until, stop)()
	cfg := primary.Copy()
	cfg.RuntimeParams["application_name"] = "ringfence listen"
	conn, err := pglogin.Connect(bounded, cfg, s.password)
	if err != nil {
		return err
	}
	defer conn.Close(bounded)
	if _, err := conn.PgConn().Exec(bounded, settings).ReadAll(); err != nil { // no timeout may end it
		return err
	}
	if _, err := conn.Exec(bounded, "listen ringfence"); err != nil {
		return err
	}
	for {
		resource, err := s.hear(ctx, conn)
		if err != nil {
			return err
		}
		if resource != "" {
			raised(resource)
		}
	}
}

// hear waits for one notification. It returns none after a while without one, if the connection
// still works.
func (s *Store) hear(ctx context.Context, conn *pgx.Conn) (fence.Resource, error) {
	waiting, cancel := context.WithTimeout(ctx, s.listenIdle)
	defer cancel()
	n, err := conn.WaitForNotification(waiting)
	switch {
	case err == nil:
		return fence.Resource(n.Payload), nil
	case ctx.Err() != nil || waiting.Err() == nil:
		return "", err
	}
	bounded, cancel := context.WithTimeout(ctx, listenTime)
	defer cancel()
	return "", pglisten.CatchUp(bounded, conn)
}
