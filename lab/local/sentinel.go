package local

import (
	"context"
	"net"
	"strings"
	"time"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/lab/system"
)

const (
	sentinelName = "lab"       // of the primary
	downAfter    = time.Second // how long it has not answered when another takes over
)

// startSentinels starts three Sentinels for Redis and its replica, and returns when each knows the
// replica and the other Sentinels.
func (s *System) startSentinels(ctx context.Context) error {
	for range 3 {
		one, err := servers.StartSentinel(ctx, servers.SentinelOptions{
			Name: sentinelName, Primary: s.redis, Quorum: 2, DownAfter: downAfter,
		})
		if err != nil {
			return err
		}
		s.sentinels = append(s.sentinels, one)
	}
	for _, one := range s.sentinels {
		err := s.untilSentinel(ctx, one, func(says map[string]string) bool {
			return says["num-slaves"] == "1" && says["num-other-sentinels"] == "2"
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// untilSentinel asks a Sentinel about the primary until the answer is as it should be.
func (s *System) untilSentinel(
	ctx context.Context, one *servers.Sentinel, is func(map[string]string) bool,
) error {
	at := driver.NewSentinelClient(&driver.Options{Addr: one.Addr()})
	defer at.Close()
	for {
		says, err := at.Master(ctx, sentinelName).Result()
		if err == nil && is(says) {
			return nil
		}
		if err := system.Sleep(ctx, lookAgain); err != nil {
			return err
		}
	}
}

// sentinelHosts are the Sentinels as the host of a URL.
func (s *System) sentinelHosts() string {
	var all []string
	for _, one := range s.sentinels {
		all = append(all, one.Addr())
	}
	return strings.Join(all, ",")
}

// failOver makes Sentinel replace the primary, which need not have failed. It returns when all
// Sentinels name the other one.
func (s *System) failOver(ctx context.Context) error {
	at := driver.NewSentinelClient(&driver.Options{Addr: s.sentinels[0].Addr()})
	defer at.Close()
	before := s.redisPrimary()
	err := system.WithRedis(before.URL(), func(db *driver.Client) error {
		return system.AwaitReplica(ctx, db)
	})
	if err != nil {
		return err
	}
	if err := orderFailover(ctx, at); err != nil {
		return err
	}
	for _, one := range s.sentinels {
		err := s.untilSentinel(ctx, one, func(says map[string]string) bool {
			return net.JoinHostPort(says["ip"], says["port"]) != before.Addr()
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// orderFailover tries until the Sentinel has seen that the replica follows: it asks every 10 s.
func orderFailover(ctx context.Context, at *driver.SentinelClient) error {
	for {
		err := at.Failover(ctx, sentinelName).Err()
		if err == nil || !strings.HasPrefix(err.Error(), "NOGOODSLAVE") {
			return err
		}
		if err := system.Sleep(ctx, lookAgain); err != nil {
			return err
		}
	}
}

// redisPrimary returns the server of Redis that the Sentinels name, or else the first one.
func (s *System) redisPrimary() *servers.Redis {
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	for _, one := range s.sentinels {
		at := driver.NewSentinelClient(&driver.Options{Addr: one.Addr()})
		named, err := at.GetMasterAddrByName(ctx, sentinelName).Result()
		_ = at.Close()
		if err == nil && net.JoinHostPort(named[0], named[1]) == s.replica.Addr() {
			return s.replica
		}
		if err == nil {
			break
		}
	}
	return s.redis
}
