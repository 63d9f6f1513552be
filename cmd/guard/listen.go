package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/ringfence/ringfence/internal/network/keepalive"
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
	unlock, err := lockDirectory(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := removeStale(path); err != nil {
		return nil, err
	}
	l, err := net.Listen("unix", path) // its Close removes the file
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, socketMode); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// removeStale removes the socket of a guard that was killed. The caller holds the lock of the
// directory, so two guards that start at the same time cannot remove each other's sockets.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != os.ModeSocket:
		return fmt.Errorf("%s exists and is not a socket", path)
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		_ = c.Close()
		return fmt.Errorf("%s is in use by a running process", path)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("%s exists, and it is unknown whether it is in use: %w", path, err)
	}
	return os.Remove(path)
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
			return fmt.Errorf("%q is not an address such as :6432, 127.0.0.1:6432, unix:/path or systemd:name: %w",
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
