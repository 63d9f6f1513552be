package guard

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// capacity is how many connections a Server serves: as many as its limits allow, and as the server
// behind the guard takes.
type capacity struct {
	protocol Protocol
	limiter  *limiter
	metrics  *Metrics
	log      *slog.Logger

	mu     sync.Mutex
	limits Limits
	room   int // how many connections of clients the server takes; 0 when that is not known
}

// allow changes the limits.
func (c *capacity) allow(l Limits) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limits = l
	c.apply()
}

// apply makes the limits count, as far as the server has room.
func (c *capacity) apply() {
	l := c.limits.defaults().within(c.room)
	c.limiter.resize(l)
	c.metrics.limit(c.protocol.Name(), l)
}

// boundTime bounds the question how many connections the server takes.
const boundTime = 5 * time.Second

// follow asks the server how many connections it takes, every now and then until ctx ends.
func (c *capacity) follow(ctx context.Context) {
	b, ok := c.protocol.(Bounded)
	if !ok {
		return
	}
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	for {
		asking, cancel := context.WithTimeout(ctx, boundTime)
		n, setting, err := b.Bound(asking)
		cancel()
		if err == nil && n > 0 {
			c.fit(n, setting)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// fit lowers the limits to what the server has room for: n connections, as the setting says.
func (c *capacity) fit(n int, setting string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n == c.room {
		return
	}
	c.room = n
	allowed := c.limits.defaults()
	if l := allowed.within(n); l != allowed {
		c.log.Info("the limits are lowered to what the server has room for",
			"protocol", c.protocol.Name(),
			setting, n, "max_connections", l.MaxConnections, "max_logins", l.MaxLogins)
	}
	c.apply()
}
