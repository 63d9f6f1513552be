//go:build unix

package unixsocket

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// lockTimeout is how long another process may take to open its socket in the same directory.
const lockTimeout = 5 * time.Second

// lockDirectory keeps other processes from opening a socket in this directory. It leaves no file
// behind.
func lockDirectory(path string) (unlock func(), err error) {
	dir, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	for until := time.Now().Add(lockTimeout); ; {
		err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = dir.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) || time.Now().After(until) {
			_ = dir.Close()
			return nil, fmt.Errorf("cannot lock the directory %s: %w", path, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
