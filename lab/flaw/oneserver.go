package flaw

import (
	"context"

	driver "github.com/redis/go-redis/v9"

	guardredis "github.com/ringfence/ringfence/internal/guard/redis"
	redisstore "github.com/ringfence/ringfence/internal/marks/redis"
)

// Unwatched makes the watches of a guard notice nothing: a server counts as the primary for good.
func Unwatched(real *redisstore.Store) func(context.Context) (guardredis.Watch, error) {
	return func(ctx context.Context) (guardredis.Watch, error) {
		w, err := real.Watch(ctx)
		return unwatched{w}, err
	}
}

type unwatched struct{ guardredis.Watch }

func (unwatched) Prove(context.Context) error           { return nil }
func (unwatched) Lost() <-chan struct{}                 { return nil }
func (unwatched) Demoted(context.Context) (bool, error) { return false, nil }

// ForgetSessions deletes the records of a resource's sessions at a new primary of Redis, so that a raise
// there ends none of those that are still connected to the former one.
func ForgetSessions(ctx context.Context, db *driver.Client, key string) error {
	return db.Eval(ctx, `for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
		if string.sub(field, 1, 8) == 'session:' then redis.call('HDEL', KEYS[1], field) end
	end
	return 0`, []string{key}).Err()
}
