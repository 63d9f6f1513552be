package checkpoint

import (
	"context"
	"net"
	"sync/atomic"
)

// trips counts how often a client sent something and then waited for the answer.
type trips struct{ n atomic.Int64 }

// counted is a connection whose round trips are counted.
type counted struct {
	net.Conn
	trips *trips
	sent  atomic.Bool // since something was received
}

func (c *counted) Write(b []byte) (int, error) {
	if !c.sent.Swap(true) {
		c.trips.n.Add(1)
	}
	return c.Conn.Write(b)
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.sent.Store(false)
	}
	return n, err
}

// roundTrips returns how many a step of one task costs, with connections open and statements
// prepared.
func (e entry) roundTrips(ctx context.Context, s *stage) (float64, error) {
	t := &trips{}
	c, err := e.open(ctx, s, conditions{commit: "on", trips: t})
	if err != nil {
		return 0, err
	}
	defer c.close()
	count := func(steps int64) (int64, error) {
		before := t.n.Load()
		_, err := c.run(ctx, names(1), steps)
		return t.n.Load() - before, err
	}
	const few, many = 50, 450
	if _, err := count(few); err != nil { // warms up
		return 0, err
	}
	short, err := count(few)
	if err != nil {
		return 0, err
	}
	long, err := count(many)
	return float64(long-short) / (many - few), err // the fixed costs of a run cancel out
}
