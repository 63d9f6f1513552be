package redismarks

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"
)

// saysFull is what Redis says on a connection before it closes it, once maxclients are connected.
const saysFull = "-ERR max number of clients reached"

// SaysFull reports whether the server's first answer on a connection is that it takes no more.
func SaysFull(answer []byte) bool { return bytes.HasPrefix(answer, []byte(saysFull)) }

// Clients asks how many clients are connected, and how many the server takes (maxclients). most is
// 0 if the server does not say it. Replicas count as clients.
func (s *Store) Clients(ctx context.Context) (connected, most int, err error) {
	info, replication := "", ""
	err = retry(ctx, func() error {
		p := s.db.Pipeline()
		clients, links := p.Info(ctx, "clients"), p.Info(ctx, "replication")
		_, err := p.Exec(ctx)
		info, replication = clients.Val(), links.Val()
		return err
	})
	number := func(info, field string) int {
		n, _ := strconv.Atoi(infoField(info, field))
		return n
	}
	connected = number(info, "connected_clients") + number(replication, "connected_slaves")
	return connected, number(info, "maxclients"), Explain(err)
}

// Full reports whether the server takes no more connections. A server that ends a connection
// without a word may have done so for that: with TLS it says nothing.
func (s *Store) Full(ctx context.Context) bool { return s.full(ctx) != nil }

// full returns why the server takes no more connections, or nil. The control connections still work
// then, so nothing else would show it.
func (s *Store) full(ctx context.Context) error {
	connected, most, err := s.Clients(ctx)
	if err == nil && most > 0 && connected >= most {
		err = fmt.Errorf("redis has all %d clients that it takes (maxclients): it refuses new "+
			"connections; raise maxclients, or find out who holds them (CLIENT LIST)", most)
	}
	return err
}

// rightsEvery is how often the rights to write are tried. Each try writes to a key, which is
// replicated.
const rightsEvery = time.Minute

// tried is when the rights were tried last, and what came of it.
type tried struct {
	mu  sync.Mutex
	at  time.Time
	err error
}

// keptRights tries the rights again, now and then: an operator may have taken them away.
func (s *Store) keptRights(ctx context.Context) error {
	s.rights.mu.Lock()
	defer s.rights.mu.Unlock()
	if s.rights.err == nil && !s.rights.at.IsZero() && time.Since(s.rights.at) < rightsEvery {
		return nil
	}
	s.rights.at, s.rights.err = time.Now(), s.probeRights(ctx)
	return s.rights.err
}
