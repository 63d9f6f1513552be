package redisguard

import (
	"bytes"
	"fmt"
	"strings"
)

// trusted are the commands that an operator trusts, in upper case: commands of modules, and of
// servers that are newer than the table. COMMAND|SUBCOMMAND is one subcommand.
type trusted map[string]bool

// trustedRule is the rule for each of them.
var trustedRule = rule{}

// parseTrusted reads the names in a setting. It refuses what the table refuses: an operator who
// does not know why must not allow it.
func parseTrusted(names []string) (trusted, error) {
	t := make(trusted)
	for _, name := range names {
		name = strings.ToUpper(strings.TrimSpace(name))
		if why := untrustworthy(name); why != "" {
			return nil, fmt.Errorf("%q cannot be trusted: %s", name, why)
		}
		t[name] = true
	}
	return t, nil
}

// untrustworthy says why a name cannot be trusted; empty if it can.
func untrustworthy(name string) string {
	command, sub, isSub := strings.Cut(name, "|")
	if !isName(command) || isSub && !isName(sub) {
		return "it is not the name of a command, or COMMAND|SUBCOMMAND"
	}
	r := rules[command]
	if r != nil && r.subs != nil && !isSub {
		return "say which subcommand, as in " + command + "|HELP"
	}
	if r != nil && isSub {
		r = r.subs[sub]
	}
	switch {
	case r == nil:
		return ""
	case r.refused:
		return "the guard refuses it, because " + r.note
	case len(r.forms) > 0:
		return "the guard lets it pass, but not with " + r.forms[0].word + ", because " + r.forms[0].why
	}
	return ""
}

// isName reports whether a text can be the name of a command.
func isName(text string) bool {
	bad := func(c rune) bool { return c <= ' ' || c > '~' || strings.ContainsRune("|,*\"'", c) }
	return text != "" && len(text) <= maxTrusted && !strings.ContainsFunc(text, bad)
}

// maxTrusted is the longest name that can be trusted.
const maxTrusted = 64

// has reports whether a command is trusted.
func (t trusted) has(args [][]byte) bool {
	if len(t) == 0 || len(args[0]) > maxTrusted || bytes.IndexByte(args[0], '|') >= 0 {
		return false
	}
	var buf [2*maxTrusted + 1]byte
	name := upper(buf[:0], args[0])
	if t[string(name)] {
		return true
	}
	if len(args) == 1 || len(args[1]) > maxTrusted {
		return false
	}
	name = append(name, '|')
	return t[string(append(name, upper(nil, args[1])...))]
}
