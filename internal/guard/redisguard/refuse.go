package redisguard

import (
	"errors"
	"strconv"
	"strings"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/refusal"
)

// line encodes a refusal for the wire.
func line(r *fence.Refusal) []byte { return []byte("-" + refusal.Line(r) + "\r\n") }

// lineOf encodes any error for the wire: a refusal with its code, a protocol error as Redis does,
// all others as errors of the guard.
func lineOf(err error) []byte {
	if r, ok := errors.AsType[*fence.Refusal](err); ok {
		return line(r)
	}
	if p, ok := errors.AsType[protocolError](err); ok {
		return []byte("-ERR " + p.Error() + "\r\n")
	}
	if errors.Is(err, errFull) { // as Redis says it, because drivers know that
		return errorLine(err.Error())
	}
	return errorLine("guard: " + err.Error())
}

// errorLine encodes one of the guard's own errors.
func errorLine(text string) []byte { return []byte("-ERR " + onOneLine(text) + "\r\n") }

// onOneLine replaces the characters that would end an error early, as Redis does.
func onOneLine(text string) string {
	return strings.NewReplacer("\r", " ", "\n", " ").Replace(text)
}

// commandName is the name of a command in an error. For a container command it includes the
// subcommand.
func commandName(args [][]byte) string {
	name := excerpt(args[0])
	if r := ruleOf(args[0]); r != nil && r.subs != nil && len(args) > 1 {
		name += " " + excerpt(args[1])
	}
	return name
}

// excerpt makes a client's word safe for an error message: short and escaped.
func excerpt(word []byte) string {
	const most = 32
	cut := word[:min(len(word), most)]
	quoted := strconv.QuoteToASCII(string(cut))
	if len(word) > most {
		return quoted + "…"
	}
	if quoted[1:len(quoted)-1] == string(cut) {
		return string(cut)
	}
	return quoted
}
