package system

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	driver "github.com/redis/go-redis/v9"
)

// WithRedis gives do a connection to Redis.
func WithRedis(url string, do func(*driver.Client) error) error {
	o, err := driver.ParseURL(url)
	if err != nil {
		return err
	}
	db := driver.NewClient(o)
	defer db.Close()
	return do(db)
}

// FailOver makes a primary of Redis and its replica change roles without loss: during FAILOVER the
// primary holds writes until the replica has caught up. It returns when both have their new roles
// and the replica follows. The primary reaches the replica at replica, the lab at address.
func FailOver(ctx context.Context, primary, replica, address string) error {
	from := driver.NewClient(&driver.Options{Addr: primary})
	to := driver.NewClient(&driver.Options{Addr: address})
	defer from.Close()
	defer to.Close()
	host, port, err := net.SplitHostPort(replica)
	if err != nil {
		return err
	}
	if err := AwaitReplica(ctx, from); err != nil {
		return err
	}
	if err := from.Do(ctx, "FAILOVER", "TO", host, port).Err(); err != nil {
		return err
	}
	return errors.Join(await(ctx, to, "role:master"), await(ctx, from, "master_link_status:up"))
}

// AwaitReplica returns once a primary of Redis has a replica that has all its data.
func AwaitReplica(ctx context.Context, primary *driver.Client) error {
	return await(ctx, primary, "state=online")
}

// await waits until INFO replication contains a text.
func await(ctx context.Context, db *driver.Client, text string) error {
	for {
		info, err := db.Info(ctx, "replication").Result()
		if err == nil && strings.Contains(info, text) {
			return nil
		}
		if err := Sleep(ctx, lookAgain); err != nil {
			return fmt.Errorf("waiting for %q in INFO replication: %w", text, err)
		}
	}
}
