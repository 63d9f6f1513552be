//go:build !linux

package relay

import (
	"context"
	"net"
)

// Loops relay sessions with few threads, on Linux only.
type Loops struct{}

// StartLoops returns nil: here every session has goroutines of its own.
func StartLoops(int) (*Loops, error) { return nil, nil }

// Close does nothing.
func (l *Loops) Close() {}

// Respond returns nil.
func (l *Loops) Respond(context.Context) error { return nil }

// Adopt returns what it is given.
func (l *Loops) Adopt(client, server net.Conn) (net.Conn, net.Conn) { return client, server }

// inLoop has no use here.
type inLoop struct{}

func start(client, server net.Conn, upward, downward *flow, toClient *patient) (wait func()) {
	return inGoroutines(client, server, upward, downward, toClient)
}

// Cork does nothing: only Linux can hold back what is written.
func Cork(net.Conn) {}
