package inject

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lab/record"
	"github.com/ringfence/ringfence/lab/scenario"
	"github.com/ringfence/ringfence/lab/system"
)

// stayed are sessions that were opened under the leader's term.
type stayed struct {
	claim    fence.Claim
	postgres *pgx.Conn
	client   *driver.Client
	redis    *driver.Conn // of the client
}

// stay opens a session of the leader in each store. They stay open until the fault ends.
func (r *Injector) stay(ctx context.Context, f scenario.Fault, guard string) (err error) {
	s := &stayed{}
	r.rec.Look(func(seen *record.Seen) { s.claim = seen.Term() })
	if s.postgres, err = r.connectUnder(ctx, guard, s.claim); err != nil {
		return err
	}
	if s.client, err = r.redisUnder(r.sys.Addresses().Guards[guard].Redis, s.claim); err != nil {
		return errors.Join(err, s.postgres.PgConn().Conn().Close())
	}
	s.redis = s.client.Conn()
	r.mu.Lock()
	r.stayed, r.held[f.Do] = s, s.close
	r.mu.Unlock()
	return s.redis.Ping(ctx).Err()
}

// close ends what is left of the sessions.
func (s *stayed) close() {
	_ = s.postgres.PgConn().Conn().Close()
	_ = errors.Join(s.redis.Close(), s.client.Close())
}

// strayInStayed writes in the sessions that stay has opened. Where one has ended, no answer comes.
func (r *Injector) strayInStayed(ctx context.Context) error {
	s := r.stayed
	if s == nil {
		return errors.New("no session has stayed open")
	}
	err := r.attempt("postgres", s.claim, func(op string) error {
		return insert(ctx, s.postgres, op, s.claim)
	})
	if err != nil && !errors.Is(err, errUnanswered) {
		return err
	}
	err = r.attempt("redis", s.claim, func(op string) error {
		return s.redis.Eval(ctx, system.Lua, ledgerKeys, op+" "+s.claim.Token.String()).Err()
	})
	if errors.Is(err, errUnanswered) {
		return nil
	}
	return err
}
