package redis

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/ringfence/ringfence/fence"
	redisstore "github.com/ringfence/ringfence/internal/marks/redis"
	"github.com/ringfence/ringfence/internal/refusal"
)

// line is a refusal on the wire.
func line(r *fence.Refusal) []byte { return []byte("-" + redisstore.Line(r) + "\r\n") }

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

func notAllowed(args [][]byte, why string) *fence.Refusal {
	return &fence.Refusal{
		Reason:  fence.ReasonNotAllowed,
		Message: fmt.Sprintf("%s is not allowed through the guard", called(args)),
		Detail:  why,
		Hint:    "it was not executed; an operator can run it at Redis itself, having made sure what it does to fencing",
	}
}

func noToken(args [][]byte) *fence.Refusal {
	return &fence.Refusal{
		Reason:  fence.ReasonNoToken,
		Message: fmt.Sprintf("%s needs a token", called(args)),
		Detail:  "this session has not claimed any; it may log in and read, and what the guard does not know counts as a write",
		Hint:    "first send: FENCE <resource> <token>, or set the client name " + refusal.NameForms,
	}
}

func badToken(message, detail string, cause error) *fence.Refusal {
	return &fence.Refusal{
		Reason: fence.ReasonMalformed, Message: message, Detail: detail, Cause: cause,
		Hint: "claim with FENCE <resource> <token> [<resource> <token> …]; a resource is a-z, 0-9 and _, a token 1 to 9223372036854775807",
	}
}

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
