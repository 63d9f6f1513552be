// Package unixsocket listens on Unix sockets with a path.
package unixsocket

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Listen listens on a Unix socket whose file has this mode. It takes the place of a socket on which
// nobody listens any more, such as that of a process that was killed; of a live one the error is
// EADDRINUSE.
func Listen(ctx context.Context, path string, mode fs.FileMode) (net.Listener, error) {
	unlock, err := lockDirectory(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := removeStale(path); err != nil {
		return nil, err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", path) // its Close removes the file
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, mode); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// removeStale removes a socket on which nobody listens any more. The caller holds the lock of the
// directory, so two processes that start at the same time cannot remove each other's sockets.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s exists and is not a socket", path)
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		_ = c.Close()
		return fmt.Errorf("a running process listens on %s: %w", path, syscall.EADDRINUSE)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("%s exists, and it is unknown whether it is in use: %w", path, err)
	}
	return os.Remove(path)
}
