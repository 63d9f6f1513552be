package redis

import (
	"errors"
	"io"
	"net"
	"syscall"
)

// isClosed says that a connection was closed or reset: how clients and servers leave.
func isClosed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// nothing is what is said when all was said.
type nothing struct{}

func (nothing) WriteTo(io.Writer) (int64, error) { return 0, nil }
