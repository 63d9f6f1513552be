package agent

import (
	"context"
	"log/slog"
	"net"
	"os"
	"strings"

	"github.com/ringfence/ringfence/internal/network/peeruser"
)

// Listen listens on unix:PATH, for the processes of this user and of root, or on a TCP address.
func Listen(ctx context.Context, address string, log *slog.Logger) (net.Listener, error) {
	path, ok := strings.CutPrefix(address, "unix:")
	if !ok {
		return (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	}
	l, err := peeruser.Socket(ctx, path)
	if err != nil {
		return nil, err
	}
	return peeruser.Listener{Listener: l, User: os.Getuid(), Log: log}, nil
}
