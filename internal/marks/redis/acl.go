package redis

import (
	"fmt"
	"strings"
)

// InstallText is the output of guard install --print. It tells an operator what to set up: the ACL
// rule for the user in the URL, and what Install does. The operator fills in the password.
func InstallText(address string) (string, error) {
	opt, err := ParseURL(address)
	if err != nil {
		return "", err
	}
	user := opt.Username
	if user == "" {
		user = "ringfence"
	}
	return "# the guard's user:\n" + ACL(user, "PASSWORD") + "\n\n" +
		"# applications' users: no +@dangerous, and key patterns that leave out " +
		markerKey + "*\n\n" +
		"# an application that runs commands under a token itself, without the guard;\n" +
		"# add the keys, channels and commands that it needs:\n" +
		RunACL("APPLICATION", "PASSWORD") + "\n\n" +
		"# guard install then creates the key " + markerKey + "; " +
		"the first time, it ends every client connection before that\n", nil
}

// ACL is the rule for the guard's user. It does not escape the password.
func ACL(user, password string) string {
	return fmt.Sprintf("ACL SETUSER %s on >%s resetkeys ~%s ~%s:* resetchannels -@all %s",
		user, password, markerKey, markerKey, strings.Join(rights, " "))
}

// RunACL is the rule for an application that runs commands under a token (Tx, Script): it may read
// marks, and write none. Add the application's own keys, channels and commands. It does not escape
// the password. Redis 6.2 does not know read-only keys (%R~): there the rule needs ~ringfence and
// ~ringfence:*, and allows too much.
func RunACL(user, password string) string {
	return fmt.Sprintf("ACL SETUSER %s on >%s resetkeys %%R~%s %%R~%s:* resetchannels -@all %s",
		user, password, markerKey, markerKey, strings.Join(runRights, " "))
}

// runRights are the commands that a driver needs to connect, and a script under a claim before its
// own work.
var runRights = []string{
	"+hello", "+auth", "+ping", "+select", "+client|setname", "+info", "+eval", "+evalsha",
	"+hmget", "+hlen", "+object|encoding",
}

// rights are all the commands that the guard's own connections run.
var rights = []string{
	"+hello", "+auth", "+ping", "+select", "+info", "+multi", "+exec",
	"+client|kill", "+client|list", "+client|setname", "+client|no-evict", "+client|id",
	"+eval", "+evalsha", "+time", "+hget", "+hmget", "+hset", "+hdel", "+hlen", "+hkeys", "+del",
	"+xadd", "+setrange", "+object|encoding", "+command",
}
