package redismarks

import (
	"fmt"
	"slices"
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
	return "# the guard's user:\n" + ACL(user, "PASSWORD") + " " + loadRight + "\n\n" +
		"# applications' users: no +@dangerous, key patterns that leave out " + markerKey + "*, and\n" +
		"# -function|load -function|delete -function|flush -function|restore, with which they could\n" +
		"# replace the functions of ringfence (before Redis 7.0: there are none)\n\n" +
		"# an application that runs commands under a token itself, without the guard;\n" +
		"# add the keys, channels and commands that it needs:\n" +
		RunACL("APPLICATION", "PASSWORD") + "\n\n" +
		"# a program that takes tokens of RESOURCE (ringfence_take, ringfence_bring);\n" +
		"# it could also write the marks themselves, so give it a user of its own:\n" +
		TakeACL("TAKER", "PASSWORD", "RESOURCE") + "\n\n" +
		"# before Redis 7.0: ~ in the place of %R~, and without +fcall and +function|load\n\n" +
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

// TakeACL is the rule for a program that takes or brings tokens of a resource with the functions.
// Redis runs a function with its caller's rights, so the user can also write the marker and the
// resource's mark directly. It does not escape the password.
func TakeACL(user, password, resource string) string {
	return fmt.Sprintf("ACL SETUSER %s on >%s resetkeys ~%s ~%s:%s ~%s %%R~%s resetchannels -@all %s",
		user, password, markerKey, markerKey, resource, originalKey, allowedKey,
		strings.Join(takeRights, " "))
}

// runRights are the commands that a driver needs to connect, and a script under a claim before its
// own work.
var runRights = []string{
	"+hello", "+auth", "+ping", "+select", "+client|setname", "+info", "+eval", "+evalsha",
	"+fcall", "+hmget", "+hlen", "+object|encoding",
}

// takeRights are what ringfence_take and ringfence_bring need.
var takeRights = append(slices.Clone(runRights),
	"+time", "+hget", "+hset", "+hdel", "+hkeys", "+del", "+setrange")

// loadRight is what guard install needs to load the functions. Redis before 7.0 does not know it.
const loadRight = "+function|load"

// rights are all the commands that the guard's own connections run.
var rights = []string{
	"+hello", "+auth", "+ping", "+select", "+info",
	"+client|kill", "+client|list", "+client|setname", "+client|no-evict", "+client|id",
	"+eval", "+evalsha", "+time", "+hget", "+hmget", "+hset", "+hdel", "+hlen", "+hkeys", "+del",
	"+xadd", "+setrange", "+object|encoding", "+command", "+xread",
}
