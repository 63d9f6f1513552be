package guard

import (
	"bufio"
	"net"
)

// Buffered is a connection whose reads come through a reader that may hold bytes read too early.
type Buffered struct {
	net.Conn
	From *bufio.Reader
}

// Read takes what the reader holds first.
func (b Buffered) Read(p []byte) (int, error) { return b.From.Read(p) }

// CloseWrite half-closes the connection.
func (b Buffered) CloseWrite() error {
	closeWrite(b.Conn)
	return nil
}
