package flaw

import (
	"context"

	driver "github.com/redis/go-redis/v9"
)

// ForgetSessions deletes the records of a resource's sessions at a new primary of Redis, so that a
// raise there ends none of those that are still connected to the former one.
func ForgetSessions(ctx context.Context, db *driver.Client, key string) error {
	return db.Eval(ctx, `for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
		if string.sub(field, 1, 8) == 'session:' then redis.call('HDEL', KEYS[1], field) end
	end
	return 0`, []string{key}).Err()
}
