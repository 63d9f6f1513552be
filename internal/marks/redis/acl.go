package redis

import (
	"fmt"
	"strings"
)

// InstallText says, for guard install --print, what an operator sets up for the guard: the rule of the user in the
// URL, and what Install does. The password is left to be filled in.
func InstallText(address string) (string, error) {
	opt, err := parseURL(address)
	if err != nil {
		return "", err
	}
	user := opt.Username
	if user == "" {
		user = "ringfence"
	}
	return "# the guard's user:\n" + ACL(user, "PASSWORD") + "\n\n" +
		"# applications' users: no +@dangerous, and key patterns that leave out " + markerKey + "*\n\n" +
		"# an application that runs commands under a token itself, round the guard, with what they need added:\n" +
		RunACL("APPLICATION", "PASSWORD") + "\n\n" +
		"# guard install then makes the key " + markerKey + ", and the first time ends every client connection before it does\n", nil
}

// ACL is the rule for the guard's user. The password is put in as it is.
func ACL(user, password string) string {
	return fmt.Sprintf("ACL SETUSER %s on >%s resetkeys ~%s ~%s:* resetchannels -@all %s", user, password, markerKey, markerKey,
		strings.Join(rights, " "))
}

// RunACL is the rule for an application that runs commands under a token (Run, Script): it may read marks, and write
// none. Keys, channels and commands of the application's own are to be added. The password is put in as it is. Redis 6.2
// does not know keys that may only be read (%R~): there the rule needs ~ringfence and ~ringfence:* and allows too much.
func RunACL(user, password string) string {
	return fmt.Sprintf("ACL SETUSER %s on >%s resetkeys %%R~%s %%R~%s:* resetchannels -@all %s", user, password, markerKey, markerKey,
		strings.Join(runRights, " "))
}

// runRights are what a script under a claim does before its own work, and a driver to connect.
var runRights = []string{
	"+hello", "+auth", "+ping", "+select", "+client|setname", "+info", "+eval", "+evalsha", "+hmget", "+hlen",
}

// rights are all that the guard's own connections do.
var rights = []string{
	"+hello", "+auth", "+ping", "+select", "+info", "+multi", "+exec", "+client|kill", "+client|list", "+client|setname",
	"+client|no-evict", "+client|id", "+eval", "+evalsha", "+time", "+hget", "+hmget", "+hset", "+hdel", "+hlen", "+hkeys", "+del", "+xadd",
}
