package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	driver "github.com/redis/go-redis/v9"
)

// withRedis gives do a direct connection to Redis, without a guard.
func (r *run) withRedis(do func(*driver.Client) error) error {
	o, err := driver.ParseURL(r.sys.Addresses().Redis)
	if err != nil {
		return err
	}
	db := driver.NewClient(o)
	defer db.Close()
	return do(db)
}

// forgetMarks deletes all keys of Ringfence, and nothing else.
func (r *run) forgetMarks(ctx context.Context) error {
	return r.withRedis(func(db *driver.Client) error {
		return db.Eval(ctx, `for _, key in ipairs(redis.call('KEYS', 'ringfence:*')) do
			redis.call('DEL', key)
		end
		return 0`, nil).Err()
	})
}

// swap swaps databases 0 and 1 atomically. The evidence is in database 0 before and after.
func (r *run) swap(ctx context.Context) error {
	return r.withRedis(func(db *driver.Client) error {
		_, err := db.TxPipelined(ctx, func(tx driver.Pipeliner) error {
			for _, key := range []string{"ledger", "balance"} {
				tx.Do(ctx, "COPY", key, key, "DB", 1, "REPLACE")
			}
			tx.Do(ctx, "SWAPDB", 0, 1)
			return nil
		})
		return err
	})
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
	if err := await(ctx, from, "state=online"); err != nil {
		return err
	}
	if err := from.Do(ctx, "FAILOVER", "TO", host, port).Err(); err != nil {
		return err
	}
	return errors.Join(await(ctx, to, "role:master"), await(ctx, from, "master_link_status:up"))
}

// await waits until INFO replication contains a text.
func await(ctx context.Context, db *driver.Client, text string) error {
	for {
		info, err := db.Info(ctx, "replication").Result()
		if err == nil && strings.Contains(info, text) {
			return nil
		}
		if err := sleep(ctx, lookAgain); err != nil {
			return fmt.Errorf("waiting for %q in INFO replication: %w", text, err)
		}
	}
}
