package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
)

const (
	relistenAfter = 5 * time.Second
	listenTime    = 10 * time.Second // bounds the connection and the LISTEN
)

// Listen calls raised with each resource of which somebody revokes many older sessions, until ctx
// ends. It has a connection of its own.
//
// It promises nothing: a notification may be lost, late, or sent by anyone who can log in. Whoever
// is called reads the mark, and revocation does not depend on the call.
func (s *Store) Listen(ctx context.Context, raised func(fence.Resource)) {
	for ctx.Err() == nil {
		s.listen(ctx, raised)
		select {
		case <-ctx.Done():
		case <-time.After(relistenAfter):
		}
	}
}

// listen returns when the connection is lost.
func (s *Store) listen(ctx context.Context, raised func(fence.Resource)) {
	bounded, cancel := context.WithTimeout(ctx, listenTime)
	defer cancel()
	cfg := s.cfg.Copy()
	cfg.RuntimeParams["application_name"] = "ringfence listen"
	conn, err := pgx.ConnectConfig(bounded, cfg)
	if err != nil {
		return
	}
	defer conn.Close(bounded)
	if _, err := conn.Exec(bounded, "listen ringfence"); err != nil {
		return
	}
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return
		}
		raised(fence.Resource(n.Payload))
	}
}
