package inject

import (
	"context"
	"errors"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
	redismarks "github.com/ringfence/ringfence/internal/marks/redis"
	"github.com/ringfence/ringfence/internal/refusal"
	"github.com/ringfence/ringfence/lab/record"
	"github.com/ringfence/ringfence/lab/scenario"
	"github.com/ringfence/ringfence/lab/system"
)

// stayed is a session in Redis that was opened under the leader's term.
type stayed struct {
	claim fence.Claim
	conn  *driver.Conn
}

// stay opens a session of the leader in Redis, which stays open until the fault ends.
func (r *Injector) stay(ctx context.Context, f scenario.Fault, guard string) error {
	s := &stayed{}
	r.rec.Look(func(seen *record.Seen) { s.claim = seen.Term() })
	db, err := r.redisUnder(guard, s.claim)
	if err != nil {
		return err
	}
	s.conn = db.Conn()
	r.mu.Lock()
	r.stayed = s
	r.held[f.Do] = func() { _ = errors.Join(s.conn.Close(), db.Close()) }
	r.mu.Unlock()
	return s.conn.Ping(ctx).Err()
}

// redisUnder makes a client of a guard under a claim. Without guards it leads to Redis itself.
func (r *Injector) redisUnder(guard string, c fence.Claim) (*driver.Client, error) {
	to := r.sys.Addresses().Guards[guard].Redis
	if r.Unguarded {
		to = r.sys.Addresses().Redis
	}
	o, err := redismarks.ParseURL(to)
	if err != nil {
		return nil, err
	}
	o.MaxRetries, o.PoolSize = -1, 1
	if !r.Unguarded {
		o.ClientName = refusal.ClientName(c)
	}
	return driver.NewClient(o), nil
}

// strayInStayed writes in the session that stay has opened. That one may have ended: then no answer comes.
func (r *Injector) strayInStayed(ctx context.Context) error {
	s := r.stayed
	if s == nil {
		return errors.New("no session has stayed open")
	}
	err := r.attempt("redis", s.claim, func(op string) error {
		return s.conn.Eval(ctx, system.Lua, ledgerKeys, op+" "+s.claim.Token.String()).Err()
	})
	if errors.Is(err, errUnanswered) {
		return nil
	}
	return err
}
