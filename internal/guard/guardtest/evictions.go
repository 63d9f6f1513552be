package guardtest

import (
	"context"
	"net"
	"sync"

	"github.com/ringfence/ringfence/internal/guard"
)

// Evictions wraps a Protocol so that a test chooses when clients are evicted. A real eviction picks
// a silent client, but that client may send something before the eviction reaches it.
type Evictions struct {
	guard.Protocol
	// evicts each client when its first bytes are read, before the Protocol gets them
	AtFirstBytes bool

	mu  sync.Mutex
	cut []context.CancelCauseFunc
}

// Now evicts every client.
func (e *Evictions) Now() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, cut := range e.cut {
		cut(guard.Evicted)
	}
}

// EvictFirst evicts the first connection of a guard as soon as the guard has accepted it. It
// repeats Now until the guard counts an eviction, because the Protocol may not serve the connection
// yet.
func (e *Evictions) EvictFirst(g *Guard) {
	g.t.Helper()
	g.AwaitMetric("ringfence_connections", "unadmitted", 1)
	for g.Metric("ringfence_connections_ended_total", "evicted") == 0 {
		e.Now()
	}
}

// Serve is guard.Protocol's.
func (e *Evictions) Serve(ctx context.Context, c *guard.Client) error {
	ctx, cut := context.WithCancelCause(ctx)
	defer cut(nil)
	e.mu.Lock()
	e.cut = append(e.cut, cut)
	e.mu.Unlock()
	if e.AtFirstBytes {
		c.Replace(tripwire{c.Conn(), func() { cut(guard.Evicted) }})
	}
	return e.Protocol.Serve(ctx, c)
}

// tripwire calls trip before it returns what it has read.
type tripwire struct {
	net.Conn
	trip func()
}

func (w tripwire) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	if n > 0 {
		w.trip()
	}
	return n, err
}

// CloseWrite half-closes the connection.
func (w tripwire) CloseWrite() error {
	return w.Conn.(interface{ CloseWrite() error }).CloseWrite()
}
