package main

import (
	"net"
	"sync/atomic"
)

// relay stands between clients and a server, and counts the bytes in both directions.
type relay struct {
	net.Listener
	server string
	bytes  atomic.Int64
}

func newRelay(server string) (*relay, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	r := &relay{Listener: l, server: server}
	if err == nil {
		go r.accept()
	}
	return r, err
}

func (r *relay) accept() {
	for {
		client, err := r.Accept()
		if err != nil {
			return // closed
		}
		upstream, err := net.Dial("tcp", r.server)
		if err != nil {
			client.Close()
			continue
		}
		go r.pass(upstream, client)
		go r.pass(client, upstream)
	}
}

// pass passes bytes until one side ends, and then ends both.
func (r *relay) pass(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		r.bytes.Add(int64(n))
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
