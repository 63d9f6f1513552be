package redis

import (
	"errors"
	"strconv"
	"strings"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/refusal"
)

// line is a refusal on the wire.
func line(r *fence.Refusal) []byte { return []byte("-" + refusal.Line(r) + "\r\n") }

// lineOf is any error on the wire: a refusal with its code, the rest as the guard's own error.
func lineOf(err error) []byte {
	var r *fence.Refusal
	var p protocolError
	switch {
	case errors.As(err, &r):
		return line(r)
	case errors.As(err, &p):
		return []byte("-ERR " + p.Error() + "\r\n")
	}
	return errorLine("guard: " + err.Error())
}

// errorLine is an error of the guard's own.
func errorLine(text string) []byte { return []byte("-ERR " + onOneLine(text) + "\r\n") }

// onOneLine takes out what would end an error early, as Redis does.
func onOneLine(text string) string { return strings.NewReplacer("\r", " ", "\n", " ").Replace(text) }

// called is a command as an error may quote it: name, and subcommand of a container.
func called(args [][]byte) string {
	name := excerpt(args[0])
	if r := ruleOf(args[0]); len(args) > 1 && r != nil && (r.only != nil || r.not != nil || r.early != nil) {
		name += " " + excerpt(args[1])
	}
	return name
}

// excerpt is a client's word for an error message: short, and harmless.
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
