package redisjournal

import (
	"strings"

	"github.com/ringfence/ringfence/internal/marks/redismarks"
)

// ACL returns the rule for the user of a journal with an Options.Raiser: it may read marks and
// write checkpoints. Add what else the user needs. A journal that raises the mark at its own URL
// needs the guard's rule, which guard install --print shows, and the channels and commands of this
// one. ACL does not quote the password.
func ACL(user, password string) string {
	return redismarks.RunACL(user, password) + " " + strings.Join(rights, " ")
}

var rights = []string{
	"~" + taskPrefix + "*", "~" + tasksKey, "&" + taskPrefix + "*",
	"+hget", "+hset", "+del", "+sadd", "+srem", "+smembers", "+publish", "+subscribe", "+unsubscribe",
}
