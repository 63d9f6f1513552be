package succession

import (
	"io"
	"net"
	"sync"
)

// relay passes on what a journal sends, for drivers that take no connection of ours, and may end the process once it has
// passed something on.
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
	_, _ = io.Copy(struct{ io.Writer }{to}, from) // every write goes through to
	_ = to.Close()
	_ = from.Close()
}
