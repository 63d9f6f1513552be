package main

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/ringfence/ringfence/internal/network/keepalive"
	"github.com/ringfence/ringfence/internal/network/unixsocket"
)

// unixPrefix marks the address of a Unix socket.
const unixPrefix = "unix:"

// socketMode lets every user of the host connect, as a TCP port does. The database decides who may
// log in.
const socketMode = 0o666

// listen opens an address that checkListen has accepted. The timeouts are those of its connections.
func listen(ctx context.Context, address string, t keepalive.Timeouts) (net.Listener, error) {
	path, unix := strings.CutPrefix(address, unixPrefix)
	if !unix {
		return t.ListenConfig().Listen(ctx, "tcp", address)
	}
	return unixsocket.Listen(ctx, path, socketMode)
}

// maxSocketPath is the longest socket path that the kernel accepts, in bytes.
const maxSocketPath = len(syscall.RawSockaddrUnix{}.Path) - 1

// checkListen says what is wrong with an address.
func checkListen(address string) error {
	path, unix := strings.CutPrefix(address, unixPrefix)
	name, passed := strings.CutPrefix(address, systemdPrefix)
	switch {
	case passed:
		return checkSocketName(name)
	case !unix:
		_, port, err := net.SplitHostPort(address)
		if err == nil {
			_, err = net.LookupPort("tcp", port)
		}
		if err != nil {
			return fmt.Errorf("%q is not an address such as :6432, 127.0.0.1:6432, unix:/path or "+
				"systemd:name: %w",
				address, err)
		}
	case !filepath.IsAbs(path) || strings.ContainsRune(path, 0):
		return fmt.Errorf("%q: the path of a Unix socket has to begin with /", address)
	case strings.HasSuffix(path, "/"):
		return fmt.Errorf("%q: this is a directory; give a path such as /run/guard/.s.PGSQL.6432",
			address)
	case len(path) > maxSocketPath:
		return fmt.Errorf("%q: the path of a Unix socket has at most %d bytes here, and this one has %d",
			address, maxSocketPath, len(path))
	}
	return nil
}

// displayAddress formats an address for the log.
func displayAddress(l net.Listener) string {
	if l.Addr().Network() == "unix" {
		return unixPrefix + l.Addr().String()
	}
	return l.Addr().String()
}
