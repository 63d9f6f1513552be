package postgres

import (
	"context"
	"encoding/binary"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// delay holds one enrolment back until its client has given up.
type delay struct {
	next    atomic.Bool
	sent    chan struct{} // closed when the client has sent it
	arrive  chan struct{} // close it to let it through
	arrived chan struct{} // closed when the server has answered
}

func newDelay() *delay {
	return &delay{
		sent: make(chan struct{}), arrive: make(chan struct{}), arrived: make(chan struct{}),
	}
}

func (d *delay) config(cfg *pgx.ConnConfig) {
	dial := cfg.DialFunc
	cfg.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &delayed{Conn: conn, d: d}, nil
	}
}

// delayed is a connection that is closed for its client and stays open behind it.
type delayed struct {
	net.Conn
	d *delay

	mu   sync.Mutex
	held bool
}

// cancels reports a CancelRequest (manual, 55.7 "Message Formats").
func cancels(b []byte) bool {
	const code = 80877102
	return len(b) >= 16 && binary.BigEndian.Uint32(b[4:]) == code
}

func (c *delayed) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.held:
		return len(b), nil // what pgx says when it gives up
	case cancels(b):
		_ = c.Conn.Close() // pgx cancels a call that was given up; the enrolment shall arrive
		return len(b), nil
	case !enrols(b) || !c.d.next.CompareAndSwap(true, false):
		return c.Conn.Write(b)
	}
	c.held = true
	packet := append([]byte(nil), b...)
	close(c.d.sent)
	go func() {
		defer close(c.d.arrived)
		defer c.Conn.Close()
		<-c.d.arrive
		_ = c.Conn.SetDeadline(time.Now().Add(10 * time.Second))
		_, _ = c.Conn.Write(packet)
		_, _ = c.Conn.Read(make([]byte, 1))
	}()
	return len(b), nil
}

func (c *delayed) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held {
		return nil
	}
	return c.Conn.Close()
}

// pooler starts a PgBouncer in transaction mode with two server connections.
func pooler(t *testing.T, pg *servers.Postgres) *servers.PgBouncer {
	t.Helper()
	return poolerOf(t, pg, pg.Addr())
}

// poolerOf is pooler, and reaches the server at an address.
func poolerOf(t *testing.T, pg *servers.Postgres, addr string) *servers.PgBouncer {
	t.Helper()
	b := serverstest.PgBouncer(t, pg, servers.PgBouncerOptions{})
	must.Succeed(t, b.Stop())
	file := filepath.Join(b.Dir(), "pgbouncer.ini")
	config, err := os.ReadFile(file)
	must.Succeed(t, err)
	_, from, _ := net.SplitHostPort(pg.Addr())
	_, to, _ := net.SplitHostPort(addr)
	changed := strings.NewReplacer("pool_mode = session", "pool_mode = transaction",
		"default_pool_size = 250", "default_pool_size = 2", "port="+from, "port="+
			to).Replace(string(config))
	must.Succeed(t, os.WriteFile(file, []byte(changed), 0o644))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	must.Succeed(t, b.Start(ctx))
	return b
}
