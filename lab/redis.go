package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/lab/flaw"
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

var (
	ledgerKeys = []string{"ledger", "balance"} // that Lua writes
	markKeys   = []string{"ringfence", "ringfence:" + Resource, loadedSign}
)

// loadedSign is the key that shows a mark that was loaded from a file.
const loadedSign = "ringfence:.original"

// swap swaps databases 0 and 1 atomically, and resets the statistics. The evidence is in database 0
// before and after. With the flaw LeftBehind a database comes back with the marks that it had.
func (r *run) swap(ctx context.Context) error {
	var kept []string
	if r.Topology.SchemaFlaw == string(flaw.LeftBehind) {
		kept = markKeys
	}
	return r.withRedis(func(db *driver.Client) error {
		_, err := db.TxPipelined(ctx, func(tx driver.Pipeliner) error {
			for _, key := range ledgerKeys {
				tx.Do(ctx, "COPY", key, key, "DB", 1, "REPLACE")
			}
			for _, key := range kept {
				tx.Do(ctx, "COPY", key, "kept:"+key, "REPLACE")
			}
			tx.Do(ctx, "SWAPDB", 0, 1)
			for _, key := range kept {
				tx.Do(ctx, "COPY", "kept:"+key, key, "REPLACE")
			}
			return tx.ConfigResetStat(ctx).Err()
		})
		return err
	})
}

// reload loads the file of an earlier SAVE into the run of the server, and puts the evidence back, so
// nobody else may write meanwhile. With the flaw LoadedMark it hides that the marks were loaded.
func (r *run) reload(ctx context.Context) error {
	return r.withRedis(func(db *driver.Client) error {
		putBack, err := dumpLedger(ctx, db)
		if err != nil {
			return err
		}
		if err := db.Do(ctx, "DEBUG", "RELOAD", "NOSAVE").Err(); err != nil {
			return err
		}
		if r.Topology.SchemaFlaw == string(flaw.LoadedMark) {
			if err := db.Del(ctx, loadedSign).Err(); err != nil {
				return err
			}
		}
		return putBack()
	})
}

// dumpLedger reads the evidence, and returns what restores it.
func dumpLedger(ctx context.Context, db *driver.Client) (putBack func() error, err error) {
	dumped := map[string]string{}
	for _, key := range ledgerKeys {
		if dumped[key], err = db.Dump(ctx, key).Result(); err != nil {
			return nil, err
		}
	}
	return func() (err error) {
		for key, value := range dumped {
			err = errors.Join(err, db.RestoreReplace(ctx, key, 0, value).Err())
		}
		return err
	}, nil
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
