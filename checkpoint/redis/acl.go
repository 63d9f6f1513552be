package redis

import (
	"strings"

	redisstore "github.com/ringfence/ringfence/internal/marks/redis"
)

// ACL is the rule for the user of a journal that raises no marks itself: it reads marks and writes
// checkpoints, and what else it is to do has to be added. A journal that raises the mark at its own
// URL (without Options.Raiser) needs the guard's rule, store/redis.ACL, and from this one the
// channels and commands. The password is put in as it is.
func ACL(user, password string) string {
	return redisstore.RunACL(user, password) + " " + strings.Join(rights, " ")
}

var rights = []string{
	"~" + taskPrefix + "*", "~" + tasksKey, "&" + taskPrefix + "*",
	"+hget", "+hset", "+sadd", "+smembers", "+publish", "+subscribe", "+unsubscribe",
}
