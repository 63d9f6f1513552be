package postgres

import (
	"context"
	"io"
	"time"

	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/relay"
)

// cancelTime bounds the forwarding of one cancel request.
const cancelTime = 5 * time.Second

// forwardCancel forwards a cancel request unchanged. Its key is the backend's own, so the guard
// need not remember it, any guard of the same server can forward it, and it means nothing once the
// backend has ended. The protocol answers neither side, whatever the outcome.
func (p *Protocol) forwardCancel(ctx context.Context, c *guard.Client, s *startup) error {
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
	unhook := context.AfterFunc(ctx, func() { _ = server.SetDeadline(relay.Past) })
	defer unhook()
	if _, err := server.Write(s.packet); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, server) // the server closes the connection when it has acted
	return err
}
