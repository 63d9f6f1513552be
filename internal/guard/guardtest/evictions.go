package guardtest

import (
	"context"
	"net"
	"sync"

	"github.com/ringfence/ringfence/internal/guard"
)

// Evictions wraps a Protocol so that a test evicts its clients at a moment of its own choice. A real eviction looks at a
// client that says nothing, but the client may have spoken by the time the guard hears of it.
type Evictions struct {
	guard.Protocol
	AtFirstWord bool // evicts every client when its first bytes are read, before the Protocol sees them

	mu  sync.Mutex
	cut []context.CancelCauseFunc
}

// Now evicts every client there is.
func (e *Evictions) Now() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, cut := range e.cut {
		cut(guard.Evicted)
	}
}

// Serve is guard.Protocol's.
func (e *Evictions) Serve(ctx context.Context, c *guard.Client) error {
	ctx, cut := context.WithCancelCause(ctx)
	defer cut(nil)
	e.mu.Lock()
	e.cut = append(e.cut, cut)
	e.mu.Unlock()
	if e.AtFirstWord {
		c.Conn = spoken{c.Conn, func() { cut(guard.Evicted) }}
	}
	return e.Protocol.Serve(ctx, c)
}

// spoken calls heard before it hands over what it has read.
type spoken struct {
	net.Conn
	heard func()
}

func (s spoken) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	if n > 0 {
		s.heard()
	}
	return n, err
}

// CloseWrite half-closes the connection.
func (s spoken) CloseWrite() error { return s.Conn.(interface{ CloseWrite() error }).CloseWrite() }
