package redisguard

import (
	"bytes"
	"slices"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/refusal"
)

const (
	namesKey = "one of its arguments is the name of a key in which the guard keeps marks and sessions"
	tooLate  = "the guard cannot see all of it before it would have to pass it on"
)

// judge returns the rule for a command that may pass, now or once the session has a token. It
// refuses every command that the table does not know, unless an operator trusts it. If args are not
// the whole command, the rest could be any words.
func (t trusted) judge(args [][]byte, whole bool) (*rule, *fence.Refusal) {
	r := ruleFor(args)
	if r == nil && t.has(args) {
		r = &trustedRule
	}
	switch {
	case r == nil:
		return nil, refusal.UnknownCommand(commandName(args))
	case r.forms != nil || r.refused:
		if why := r.refuses(args, whole); why != "" {
			return nil, refusal.NotAllowed(commandName(args), why)
		}
	}
	if namesGuardKey(args) && r != fenceRule {
		return nil, refusal.NotAllowed(commandName(args), namesKey)
	}
	return r, nil
}

var fenceRule = rules["FENCE"]

// refuses returns why a command is refused; empty if it is not.
func (r *rule) refuses(args [][]byte, whole bool) string {
	for _, f := range r.forms {
		if slices.ContainsFunc(args[1:], f.has) {
			return f.why
		}
	}
	switch {
	case r.refused:
		return r.note
	case !whole && len(r.forms) > 0:
		return tooLate
	}
	return ""
}

func (f form) has(arg []byte) bool {
	if f.word == "OURS" {
		return mayBeOurs(arg)
	}
	return equalFold(arg, f.word)
}

// mayBeOurs reports whether a text for FUNCTION LOAD may be the library of ringfence by its first
// line, in which Redis reads words as a shell does.
func mayBeOurs(text []byte) bool {
	first, _, _ := bytes.Cut(text, []byte("\n"))
	isName := func(word []byte) bool { return bytes.EqualFold(word, []byte("name="+keyPrefix)) }
	return bytes.ContainsAny(first, "\"'\\") || slices.ContainsFunc(bytes.Fields(first), isName)
}

// namesGuardKey reports whether an argument is the name of one of our keys.
func namesGuardKey(args [][]byte) bool { return slices.ContainsFunc(args[1:], isGuardKey) }

// keyPrefix begins the names of our keys.
const keyPrefix = "ringfence"

// isGuardKey reports whether an argument is the name of one of our keys.
func isGuardKey(arg []byte) bool {
	return len(arg) >= len(keyPrefix) && arg[0] == 'r' && bytes.HasPrefix(arg, []byte(keyPrefix)) &&
		(len(arg) == len(keyPrefix) || arg[len(keyPrefix)] == ':')
}

// needsToken refuses a command that may pass only once the session has a token.
func needsToken(r *rule, args [][]byte) *fence.Refusal {
	if r.early {
		return nil
	}
	return refusal.NeedsToken(commandName(args))
}
