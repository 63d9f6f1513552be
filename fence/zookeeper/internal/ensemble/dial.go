package ensemble

import (
	"context"
	"crypto/tls"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/ringfence/ringfence/internal/network/backoff"
)

// hostList is the library's list of servers. It resolves names at each dial, so an ensemble may
// move.
type hostList struct {
	s  *Session
	mu sync.Mutex
	at int
}

// Init implements zk.HostProvider. It ignores the list: the session has its own.
func (h *hostList) Init([]string) error { h.at = rand.IntN(h.Len()); return nil }

// Len implements zk.HostProvider.
func (h *hostList) Len() int { return len(h.s.Client.Hosts) }

// Next implements zk.HostProvider. The library checks only after a whole round whether it was
// closed, and then sleeps for a second. pace replaces both.
func (h *hostList) Next() (server string, roundIsOver bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.at = (h.at + 1) % h.Len()
	return h.s.Client.Hosts[h.at], h.s.closing()
}

// Connected implements zk.HostProvider.
func (h *hostList) Connected() {}

// dial connects the library to a server, on the library's goroutine. Once the session is over it
// makes no more connections: it waits for Close and fails.
func (s *Session) dial(network, address string, limit time.Duration) (net.Conn, error) {
	if err := s.pace(); err != nil {
		return nil, err
	}
	conn, err := s.Client.dial(s.ctx, network, address, limit)
	if err != nil {
		s.Client.noteFailure(err)
		return nil, err
	}
	l, err := newLink(conn, s, s.Client.greetingLimit())
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.link = l
	s.mu.Unlock()
	if s.Client.onLink != nil {
		s.Client.onLink(l)
	}
	if s.ctx.Err() != nil { // closed meanwhile; the close did not see this link
		l.Close()
		return nil, context.Cause(s.ctx)
	}
	return l, nil
}

// dial opens a connection, encrypted if the URL says so.
func (c *Client) dial(
	ctx context.Context, network, address string, limit time.Duration,
) (net.Conn, error) {
	d := &net.Dialer{Timeout: limit}
	if c.TLS == nil {
		return d.DialContext(ctx, network, address)
	}
	return (&tls.Dialer{NetDialer: d, Config: c.TLS}).DialContext(ctx, network, address)
}

// greetingLimit is how long a server may take to greet. A server that is just starting can swallow
// the request and never answer, and the library would wait for more than six session timeouts.
func (c *Client) greetingLimit() time.Duration {
	return min(max(c.Timeout/6, time.Second), 3*time.Second)
}

// pace waits before the second and later rounds over the hosts. When the session is over it waits
// for Close.
func (s *Session) pace() error {
	s.mu.Lock()
	round := s.dials / len(s.Client.Hosts)
	first := s.dials%len(s.Client.Hosts) == 0
	s.dials++
	s.mu.Unlock()
	if round > 0 && first {
		select {
		case <-time.After(backoff.After(round, 20*time.Millisecond, time.Second)):
		case <-s.over:
		}
	}
	if _, _, cause := s.State(); cause == nil {
		return nil
	}
	<-s.ctx.Done()
	return context.Cause(s.ctx)
}
