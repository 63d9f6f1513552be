package succession

import (
	"io"
	"net"
	"sync"
)

// relay relays a journal's connection, for drivers that do not accept a custom connection. It may
// end the process after a write.
func (e *ending) relay(target string) (address string, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	var passing sync.WaitGroup
	passing.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", target)
			if err != nil {
				_ = client.Close()
				continue
			}
			passing.Go(func() { pass(wire{server, e}, client) })
			passing.Go(func() { pass(client, server) })
		}
	})
	return l.Addr().String(), func() { _ = l.Close(); passing.Wait() }, nil
}

func pass(to, from net.Conn) {
	_, _ = io.Copy(struct{ io.Writer }{to}, from) // hides ReadFrom, so every write goes through to
	_ = to.Close()
	_ = from.Close()
}
