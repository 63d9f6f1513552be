package failover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/bench/internal/report"
	"github.com/ringfence/ringfence/bench/internal/rounds"
	"github.com/ringfence/ringfence/bench/internal/ways"
	"github.com/ringfence/ringfence/internal/marks/redismarks"
)

const (
	list   = "written"
	driven = "driver" // go-redis follows the Sentinels itself
	behind = "guard"
)

// redisEvents are what happens to the primary.
var redisEvents = []struct {
	name  string
	start func(context.Context, *cluster) error
}{
	{"Sentinel, planned", func(ctx context.Context, c *cluster) error { return c.failover(ctx) }},
	{"Sentinel, killed", func(_ context.Context, c *cluster) error { return c.first.Kill() }},
	{"Sentinel, frozen", func(_ context.Context, c *cluster) error { return c.first.Pause() }},
}

// redis measures failovers by Sentinel.
func (s *settings) redis(ctx context.Context, r *report.Report, progress io.Writer) error {
	r.Note("The Sentinels take a server for down after %s of silence.", downAfter)
	for _, event := range redisEvents {
		if !s.Wants(event.name) {
			continue
		}
		to := newRows(r, event.name)
		for round := range s.Rounds {
			to.say(progress, round)
			for _, way := range rounds.Turn([]string{driven, behind}, round) {
				if err := s.redisWay(ctx, to, way, event.start); err != nil {
					return fmt.Errorf("%s, %s: %w", event.name, way, err)
				}
			}
		}
	}
	return nil
}

// redisWay lets one failover happen.
func (s *settings) redisWay(
	ctx context.Context, to *rows, way string, event func(context.Context, *cluster) error,
) (err error) {
	c, err := start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	w := &writer{pause: 2 * time.Millisecond}
	db := c.client()
	if way == behind {
		if err := redismarks.Install(ctx, c.first.URL()); err != nil {
			return err
		}
		g, err := ways.StartGuard(ctx, ways.GuardOptions{Program: s.Guard, Redis: c.url()})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, g.Close()) }()
		db = driver.NewClient(guardOptions(g.Redis))
	}
	defer db.Close()
	w.one = func(ctx context.Context, n int) error { return db.RPush(ctx, list, n).Err() }
	err = during(ctx, []*writer{w}, func() error { return event(ctx, c) }, 15*time.Second)
	if err != nil {
		return err
	}
	kept, err := c.kept(ctx)
	if err == nil {
		to.add(way, w.outage, w.missing(kept))
	}
	return err
}

// guardOptions are a driver's that claims the resource on each connection.
func guardOptions(addr string) *driver.Options {
	return &driver.Options{
		Addr: addr, ContextTimeoutEnabled: true, MaxRetries: -1, PoolSize: 1,
		OnConnect: func(ctx context.Context, c *driver.Conn) error {
			return c.Do(ctx, "FENCE", "orders", 5).Err()
		},
	}
}
