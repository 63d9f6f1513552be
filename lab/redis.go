package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	driver "github.com/redis/go-redis/v9"
)

// asAdministrator runs commands straight at Redis.
func (r *run) asAdministrator(ctx context.Context, do func(*driver.Client) error) error {
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
	return r.asAdministrator(ctx, func(db *driver.Client) error {
		return db.Eval(ctx, `for _, key in ipairs(redis.call('KEYS', 'ringfence:*')) do redis.call('DEL', key) end return 0`, nil).Err()
	})
}

// swap lets databases 0 and 1 change places, at one moment. The evidence is in database 0 before and after.
func (r *run) swap(ctx context.Context) error {
	return r.asAdministrator(ctx, func(db *driver.Client) error {
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

// FailOver makes a primary of Redis and its replica change places without loss: FAILOVER lets the primary hold writes until
// the replica has caught up. It returns when both have taken their new places, and the replica follows. replica is where the
// primary reaches it, seen is where the lab does.
func FailOver(ctx context.Context, primary, replica, seen string) error {
	from, to := driver.NewClient(&driver.Options{Addr: primary}), driver.NewClient(&driver.Options{Addr: seen})
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

// await waits until INFO replication has a text.
func await(ctx context.Context, db *driver.Client, text string) error {
	for {
		info, err := db.Info(ctx, "replication").Result()
		if err == nil && strings.Contains(info, text) {
			return nil
		}
		if err := pass(ctx, lookAgain); err != nil {
			return fmt.Errorf("waiting for %q in INFO replication: %w", text, err)
		}
	}
}
