package guard

import (
	"bufio"
	"net"
)

// Buffered is a connection that is read through a reader, which may hold bytes already.
type Buffered struct {
	net.Conn
	From *bufio.Reader
}

// Read returns what the reader holds first.
func (b Buffered) Read(p []byte) (int, error) { return b.From.Read(p) }

// CloseWrite half-closes the connection.
func (b Buffered) CloseWrite() error {
	closeWrite(b.Conn)
	return nil
}
