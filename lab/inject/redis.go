package inject

import (
	"context"
	"errors"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/lab/flaw"
	"github.com/ringfence/ringfence/lab/scenario"
	"github.com/ringfence/ringfence/lab/system"
)

// withRedis gives do a direct connection to Redis, without a guard.
func (r *Injector) withRedis(do func(*driver.Client) error) error {
	return system.WithRedis(r.sys.Addresses().Redis, do)
}

// forgetMarks deletes all keys of Ringfence, and nothing else.
func (r *Injector) forgetMarks(ctx context.Context) error {
	return r.withRedis(func(db *driver.Client) error {
		return db.Eval(ctx, `for _, key in ipairs(redis.call('KEYS', 'ringfence:*')) do
			redis.call('DEL', key)
		end
		return 0`, nil).Err()
	})
}

var (
	ledgerKeys = []string{"ledger", "balance"} // that Lua writes
	markKeys   = []string{"ringfence", "ringfence:" + scenario.Resource, loadedSign}
)

// loadedSign is the key that shows a mark that was loaded from a file.
const loadedSign = "ringfence:.original"

// switchOver swaps the roles of Redis and its replica.
func (r *Injector) switchOver(ctx context.Context) error {
	err := r.sys.SwitchOver(ctx)
	if err != nil || r.Topology.SchemaFlaw != string(flaw.OneServer) {
		return err
	}
	return r.withRedis(func(db *driver.Client) error {
		return flaw.ForgetSessions(ctx, db, "ringfence:"+scenario.Resource)
	})
}

// swap swaps databases 0 and 1 atomically, and resets the statistics. The evidence is in database 0
// before and after. With the flaw LeftBehind a database comes back with the marks that it had.
func (r *Injector) swap(ctx context.Context) error {
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

// reload loads the file of an earlier SAVE into the run of the server, and puts the evidence back,
// so nobody else may write meanwhile. With the flaw LoadedMark it hides that the marks were loaded.
func (r *Injector) reload(ctx context.Context) error {
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
