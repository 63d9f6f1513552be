package postgres

import (
	"context"
	"io"
	"net"
	"time"

	"github.com/ringfence/ringfence/internal/guard"
)

// cancelTime bounds the passing on of one cancel request.
const cancelTime = 5 * time.Second

// cancelQuery passes a cancel request on as it is. Its key is the backend's own, so it needs no memory here, works
// through any guard of the same server, and means nothing once the backend has ended. Neither side is told how it went,
// as the protocol has it.
func (p *Protocol) cancelQuery(ctx context.Context, seat *guard.Seat, s *startup) error {
	ctx, cancel := context.WithTimeout(ctx, cancelTime)
	defer cancel()
	if err := seat.Login(ctx); err != nil {
		return nil
	}
	server, err := p.dial(ctx)
	if err != nil {
		return err
	}
	defer server.Close()
	unhook := context.AfterFunc(ctx, func() { _ = server.SetDeadline(time.Unix(1, 0)) })
	defer unhook()
	if _, err := server.Write(s.packet); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, server) // the server closes when it has acted
	return err
}

// dial makes a leg to the server.
func (p *Protocol) dial(ctx context.Context) (net.Conn, error) {
	network, address := p.o.Store.DialTarget()
	d := net.Dialer{Timeout: p.o.LoginTimeout, KeepAlive: 30 * time.Second}
	return d.DialContext(ctx, network, address)
}
