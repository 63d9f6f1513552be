package failover

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/internal/test/servers"
)

const (
	name      = "orders"
	downAfter = time.Second
)

// cluster is two servers that three Sentinels watch.
type cluster struct {
	first, second *servers.Redis
	sentinels     []*servers.Sentinel
}

func start(ctx context.Context) (_ *cluster, err error) {
	c := &cluster{}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	for _, s := range []**servers.Redis{&c.first, &c.second} {
		if *s, err = servers.StartRedis(ctx, servers.RedisOptions{}); err != nil {
			return nil, err
		}
	}
	db := driver.NewClient(&driver.Options{Addr: c.second.Addr()})
	defer db.Close()
	host, port, _ := strings.Cut(c.first.Addr(), ":")
	if err := db.SlaveOf(ctx, host, port).Err(); err != nil {
		return nil, err
	}
	for range 3 {
		s, err := servers.StartSentinel(ctx, servers.SentinelOptions{
			Name: name, Primary: c.first, Quorum: 2, DownAfter: downAfter,
		})
		if err != nil {
			return nil, err
		}
		c.sentinels = append(c.sentinels, s)
	}
	return c, c.await(ctx, func(m map[string]string) bool {
		return m["num-slaves"] == "1" && m["num-other-sentinels"] == "2" &&
			strings.Contains(db.Info(ctx, "replication").Val(), "master_link_status:up")
	})
}

// await waits until what each Sentinel says of the primary is as it should be.
func (c *cluster) await(ctx context.Context, is func(map[string]string) bool) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for _, s := range c.sentinels {
		at := driver.NewSentinelClient(&driver.Options{Addr: s.Addr()})
		defer at.Close()
		for m, err := at.Master(ctx, name).Result(); err != nil || !is(m); {
			if ctx.Err() != nil {
				return fmt.Errorf("a Sentinel says %v: %w", m, errors.Join(err, context.Cause(ctx)))
			}
			m, err = at.Master(ctx, name).Result()
		}
	}
	return nil
}

func (c *cluster) addresses() (all []string) {
	for _, s := range c.sentinels {
		all = append(all, s.Addr())
	}
	return all
}

// url is that of a guard.
func (c *cluster) url() string {
	return "redis+sentinel://" + strings.Join(c.addresses(), ",") + "/" + name
}

// client follows the Sentinels itself.
func (c *cluster) client() *driver.Client {
	return driver.NewFailoverClient(&driver.FailoverOptions{
		MasterName: name, SentinelAddrs: c.addresses(), ContextTimeoutEnabled: true, MaxRetries: -1,
		PoolSize: 1,
	})
}

// failover begins a planned one.
func (c *cluster) failover(ctx context.Context) error {
	at := driver.NewSentinelClient(&driver.Options{Addr: c.sentinels[0].Addr()})
	defer at.Close()
	return at.Failover(ctx, name).Err()
}

// kept returns what the list has at the new primary.
func (c *cluster) kept(ctx context.Context) ([]string, error) {
	err := c.await(ctx, func(m map[string]string) bool {
		return m["ip"]+":"+m["port"] == c.second.Addr()
	})
	if err != nil {
		return nil, err
	}
	db := driver.NewClient(&driver.Options{Addr: c.second.Addr()})
	defer db.Close()
	return db.LRange(ctx, list, 0, -1).Result()
}

func (c *cluster) close() error {
	var all []error
	for _, s := range c.sentinels {
		all = append(all, s.Close())
	}
	for _, s := range []*servers.Redis{c.first, c.second} {
		if s != nil {
			all = append(all, s.Close())
		}
	}
	return errors.Join(all...)
}
