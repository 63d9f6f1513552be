package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/ringfence/ringfence/cmd/internal/systemd"
	"github.com/ringfence/ringfence/internal/network/peeruser"
	"github.com/ringfence/ringfence/internal/network/tally"
	"github.com/ringfence/ringfence/internal/network/unixsocket"
)

// The forms of an address that are not a host and a port.
const (
	UnixPrefix    = "unix:"
	SystemdPrefix = "systemd:"
)

// Listener is where an agent's clients connect.
type Listener struct {
	net.Listener
	Trusted bool // only the processes of User, and of root, are accepted
	User    int
}

// stored is how many bytes a Unix socket stores for a client that does not read: about ten events.
// Where the system does not tell what is unread, such a client loses its term when they are full;
// the system's default takes hundreds.
const stored = 4 << 10

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if onSocket, ok := c.(*net.UnixConn); ok {
		_ = onSocket.SetWriteBuffer(stored)
	}
	return c, err
}

// Listen listens on an address: unix:PATH, for the processes of this user and of root;
// systemd:NAME, a socket that the service manager has opened, for the owner of its file and root;
// or host:port.
func Listen(
	ctx context.Context, address string, sockets *systemd.Sockets, log *slog.Logger,
) (*Listener, error) {
	user := os.Getuid()
	if path, ok := strings.CutPrefix(address, UnixPrefix); ok {
		if err := makeFolder(path); err != nil {
			return nil, err
		}
		l, err := unixsocket.Listen(ctx, path, 0o600)
		return trusted(l, user, log), err
	}
	name, passed := strings.CutPrefix(address, SystemdPrefix)
	if !passed {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		return &Listener{l, false, user}, err
	}
	l, err := sockets.Listener(name)
	if err != nil {
		return nil, err
	}
	file, isUnix := l.Addr().(*net.UnixAddr)
	if !isUnix {
		return &Listener{l, false, user}, nil
	}
	if user, err = owner(file.Name); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return trusted(l, user, log), nil
}

func trusted(l net.Listener, user int, log *slog.Logger) *Listener {
	return &Listener{peeruser.Listener{
		Listener: l, Admit: peeruser.OnlyUser(user), Log: tally.NewLog(log),
	}, true, user}
}

// owner returns the owner of a file; of a socket it is SocketUser= of a .socket unit.
func owner(path string) (int, error) {
	info, err := os.Stat(path)
	if err != nil {
		return -1, err
	}
	file, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return -1, fmt.Errorf("this system does not tell who owns %s", path)
	}
	return int(file.Uid), nil
}

// makeFolder makes the folder of a socket for this user alone, unless it exists. Its owner could
// put another socket in the place of the agent's, so that is this user or root.
func makeFolder(socket string) error {
	folder := filepath.Dir(socket)
	err := os.Mkdir(folder, 0o700)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make the folder of the socket: %w; make it as root, for user %d, or name a "+
			"socket elsewhere by --listen unix:PATH", err, os.Getuid())
	}
	user, err := owner(folder)
	if err == nil && user != 0 && user != os.Getuid() {
		err = fmt.Errorf("the folder %s belongs to user %d, who could put a socket of their own there: "+
			"run the agent as that user, or name a socket elsewhere by --listen unix:PATH", folder, user)
	}
	return err
}
