package succession

import (
	"context"
	"net/url"
	"testing"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/redisjournal"
	"github.com/ringfence/ringfence/internal/marks/redismarks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// openRedis opens a journal with asynchronous steps, which write to a list without the fence.
func openRedis(ctx context.Context, e job) (*opened, error) {
	direct, err := driver.ParseURL(e.URL)
	if err != nil {
		return nil, err
	}
	through, err := url.Parse(e.URL)
	if err != nil {
		return nil, err
	}
	relay, err := e.Ending.relay(direct.Addr)
	if err != nil {
		return nil, err
	}
	through.Host = relay.Addr()
	j, err := redisjournal.Open(ctx, through.String(),
		redisjournal.Options{Raiser: redismarks.NewRaiser(e.Raise)})
	if err != nil {
		return nil, err
	}
	world := driver.NewClient(direct)
	o := &opened{journal: watched{j, e.Ending}, term: forAnHour(e), close: func() {
		j.Close()
		_ = world.Close()
		_ = relay.Close()
	}}
	for _, name := range []string{"fetch", "mail", "report"} {
		o.steps = append(o.steps, asynchronous(name, e.Ending, func(
			ctx context.Context, key checkpoint.Key,
		) error {
			return world.RPush(ctx, "world", key.String()).Err()
		}))
	}
	return o, nil
}

func redisWorld(t *testing.T) *world {
	r := serverstest.Redis(t, servers.RedisOptions{
		Args: []string{"--appendonly", "yes", "--appendfsync", "always"},
	})
	must.Succeed(t, redismarks.Install(t.Context(), r.URL()))
	j, err := redisjournal.Open(t.Context(), r.URL(), redisjournal.Options{})
	must.Succeed(t, err)
	t.Cleanup(j.Close)
	o, err := driver.ParseURL(r.URL())
	must.Succeed(t, err)
	c := driver.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return &world{t: t, kind: "redis", url: r.URL(), raise: r.URL(), journal: j,
		outside: func() []string {
			found, err := c.LRange(t.Context(), "world", 0, -1).Result()
			must.Succeed(t, err)
			return found
		}}
}
