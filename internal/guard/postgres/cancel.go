package postgres

import (
	"context"
	"io"
	"time"

	"github.com/ringfence/ringfence/internal/guard"
)

// cancelTime bounds the passing on of one cancel request.
const cancelTime = 5 * time.Second

// cancelQuery passes a cancel request on as it is. Its key is the backend's own, so it needs no memory here, works
// through any guard of the same server, and means nothing once the backend has ended. Neither side is told how it went,
// as the protocol has it.
func (p *Protocol) cancelQuery(ctx context.Context, c *guard.Client, s *startup) error {
	ctx, cancel := context.WithTimeout(ctx, cancelTime)
	defer cancel()
	if err := c.Seat.Login(ctx); err != nil {
		return nil
	}
	server, err := p.o.Store.Dial(ctx)
	if err != nil {
		return err
	}
	defer server.Close()
	unhook := context.AfterFunc(ctx, func() { _ = server.SetDeadline(guard.Past) })
	defer unhook()
	if _, err := server.Write(s.packet); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, server) // the server closes when it has acted
	return err
}
