package zookeeper

import (
	"context"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// hosts is the library's list of servers. Names are resolved at each dial, not once, so that an ensemble may move.
type hosts struct {
	s  *session
	mu sync.Mutex
	at int
}

// Init implements zk.HostProvider; the session's own list is used.
func (h *hosts) Init([]string) error { h.at = rand.IntN(h.Len()); return nil }

// Len implements zk.HostProvider.
func (h *hosts) Len() int { return len(h.s.c.address.hosts) }

// Next implements zk.HostProvider. The library looks whether it has been closed only when a round is said to be over;
// it would also sleep a second at the end of each, which dial does better.
func (h *hosts) Next() (server string, roundIsOver bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.at = (h.at + 1) % h.Len()
	return h.s.c.address.hosts[h.at], h.s.closing()
}

// Connected implements zk.HostProvider.
func (h *hosts) Connected() {}

// dial is the library's way to a server. Once the session is over no connection is made any more: the call waits for
// close and fails. It runs on the library's goroutine.
func (s *session) dial(network, address string, limit time.Duration) (net.Conn, error) {
	if err := s.pace(); err != nil {
		return nil, err
	}
	d := net.Dialer{Timeout: limit}
	conn, err := d.DialContext(s.ctx, network, address)
	if err != nil {
		s.c.failed(err)
		return nil, err
	}
	l, err := newLink(conn, s, s.c.greetingLimit())
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.link = l
	s.mu.Unlock()
	if s.c.probe.link != nil {
		s.c.probe.link(l)
	}
	if s.ctx.Err() != nil { // closed meanwhile, which saw the link before
		l.Close()
		return nil, context.Cause(s.ctx)
	}
	return l, nil
}

// greetingLimit is how long a server may take to greet. A server that is just starting can swallow the request and
// never answer; the library would wait for it for more than six session timeouts.
func (c *Coordinator) greetingLimit() time.Duration {
	return min(max(c.timeout/6, time.Second), 3*time.Second)
}

// pace waits before the second and later rounds over the hosts, and forever when the session is over.
func (s *session) pace() error {
	s.mu.Lock()
	round := s.dials / len(s.c.address.hosts)
	first := s.dials%len(s.c.address.hosts) == 0
	s.dials++
	s.mu.Unlock()
	if round > 0 && first {
		select {
		case <-time.After(backoff(round, 20*time.Millisecond, time.Second)):
		case <-s.over:
		}
	}
	if _, _, cause := s.state(); cause == nil {
		return nil
	}
	<-s.ctx.Done()
	return context.Cause(s.ctx)
}

// backoff doubles from least to most, with jitter so that clients do not come back in step. n counts from 1.
func backoff(n int, least, most time.Duration) time.Duration {
	d := most
	if n < 16 {
		d = min(least<<(n-1), most)
	}
	return d/2 + rand.N(d/2+1)
}
