package redisguard

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/internal/test/must"
)

// A driver with its defaults gets the same results directly and through the guard.
func TestGoRedisWorksThroughTheGuard(t *testing.T) {
	t.Parallel()
	for _, protocol := range []int{2, 3} {
		t.Run(fmt.Sprintf("RESP%d", protocol), func(t *testing.T) {
			g := fresh(t)
			through := driverTo(t, g.Addr, func(o *driver.Options) {
				o.Protocol = protocol
				o.OnConnect = func(ctx context.Context, c *driver.Conn) error {
					return c.Do(ctx, "FENCE", "orders", "5").Err()
				}
			})
			direct := driverTo(t, fresh(t).server.Addr(), func(o *driver.Options) {
				o.Protocol = protocol
			})
			for name, work := range driverWork {
				var got [2]string
				for i, c := range []*driver.Client{through, direct} {
					result, err := work(t.Context(), c)
					got[i] = fmt.Sprintf("%v %v", result, err)
				}
				if got[0] != got[1] {
					t.Errorf("%s: through the guard %s, directly %s", name, got[0], got[1])
				}
			}
		})
	}
}

var driverWork = map[string]func(context.Context, *driver.Client) (any, error){
	"plain": func(ctx context.Context, c *driver.Client) (any, error) {
		return []any{c.Set(ctx, "a", "1", time.Minute).Val(), c.Get(ctx, "a").Val(),
			c.HSet(ctx, "h", "f", 1.5).Val(), c.HGetAll(ctx, "h").Val()}, c.Get(ctx, "none").Err()
	},
	"pipeline": func(ctx context.Context, c *driver.Client) (any, error) {
		cmds, err := c.Pipelined(ctx, func(p driver.Pipeliner) error {
			for i := range 2000 {
				p.RPush(ctx, "list", i)
			}
			p.LRange(ctx, "list", 0, -1)
			return nil
		})
		return fmt.Sprint(cmds), err
	},
	"transaction": func(ctx context.Context, c *driver.Client) (any, error) {
		var n *driver.IntCmd
		err := c.Watch(ctx, func(tx *driver.Tx) error {
			_, err := tx.TxPipelined(ctx, func(p driver.Pipeliner) error {
				n = p.Incr(ctx, "watched")
				return nil
			})
			return err
		}, "watched")
		return n.Val(), err
	},
	"lost transaction": func(ctx context.Context, c *driver.Client) (any, error) {
		err := c.Watch(ctx, func(tx *driver.Tx) error {
			if err := c.Incr(ctx, "contended").Err(); err != nil {
				return err
			}
			_, err := tx.TxPipelined(ctx, func(p driver.Pipeliner) error {
				p.Incr(ctx, "contended")
				return nil
			})
			return err
		}, "contended")
		return errors.Is(err, driver.TxFailedErr), nil
	},
	"script": func(ctx context.Context, c *driver.Client) (any, error) {
		return driver.NewScript("return {KEYS[1], ARGV[1], {1, 2}}").Run(ctx, c,
			[]string{"k"}, "v").Result()
	},
	"blocking": func(ctx context.Context, c *driver.Client) (any, error) {
		popped := make(chan any, 1)
		go func() { popped <- c.BLPop(ctx, 20*time.Second, "queue").Val() }()
		if err := c.RPush(ctx, "queue", "x").Err(); err != nil {
			return nil, err
		}
		return <-popped, nil
	},
	"publish and subscribe": func(ctx context.Context, c *driver.Client) (any, error) {
		s := c.Subscribe(ctx, "channel")
		defer s.Close()
		if _, err := s.Receive(ctx); err != nil {
			return nil, err
		}
		if err := c.Publish(ctx, "channel", "hello").Err(); err != nil {
			return nil, err
		}
		m, err := s.ReceiveMessage(ctx)
		return m, err
	},
}

// A pool whose token has become stale gets STALETOKEN and cannot connect again.
func TestADeposedPoolIsToldItsTokenIsStale(t *testing.T) {
	t.Parallel()
	g := fresh(t)
	old, newer := g.leader(5), g.leader(6)
	must.Succeed(t, old.Set(t.Context(), "a", "5", 0).Err())
	must.Succeed(t, newer.Set(t.Context(), "a", "6", 0).Err())
	for range 3 {
		err := old.Set(t.Context(), "a", "5", 0).Err()
		if err == nil {
			t.Fatal("a deposed pool has written")
		}
		if !driver.HasErrorPrefix(err, "STALETOKEN") {
			t.Logf("at first the pool finds its connection closed: %v", err)
		}
	}
	if err := old.Ping(t.Context()).Err(); !driver.HasErrorPrefix(err, "STALETOKEN") {
		t.Errorf("a new connection: %v", err)
	}
	if v := newer.Get(t.Context(), "a").Val(); v != "6" {
		t.Errorf("a is %s", v)
	}
}
