package refusal

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ringfence/ringfence/fence"
)

// NameForms are the forms of a client name that carries a claim, for messages.
const NameForms = Prefix + "<resource>.<token> or " + Prefix + "<resource>=<token>"

// ErrNoClaim is the error of a client name that begins with Prefix and names no token.
var ErrNoClaim = errors.New("the client name claims nothing")

// ClientName is the name of a Redis connection that carries a claim.
func ClientName(c fence.Claim) string {
	return Prefix + string(c.Resource) + "." + c.Token.String()
}

// OfClientName splits the name of a Redis connection that carries a claim into resource and token;
// false for any other name. There are two forms: fence.<resource>.<token>, and the older
// fence.<resource>=<token>, which programs cannot read that take CLIENT LIST apart at '='. A
// resource has neither a dot nor an equals sign in it, so the first of them ends it. The error is
// ErrNoClaim.
func OfClientName(name string) (resource, token string, ok bool, err error) {
	claim, ok := strings.CutPrefix(name, Prefix)
	if !ok {
		return "", "", false, nil
	}
	end := strings.IndexAny(claim, ".=")
	if end < 0 {
		return "", "", true, ErrNoClaim
	}
	return claim[:end], claim[end+1:], true, nil
}

// What only a Redis guard tells a client. An error of Redis is one line of text that begins with a
// code: it has no fields for resource, token and mark.

// Line is a refusal as a Redis client reads it: the code, and message, detail and hint in one line.
func Line(r *fence.Refusal) string {
	return Word(r.Reason) + " " + strings.NewReplacer("\r", " ", "\n", " ").Replace(r.Error())
}

// NotAllowed refuses a command that the guard lets nobody run.
func NotAllowed(command, why string) *fence.Refusal {
	return &fence.Refusal{
		Reason:  fence.ErrNotAllowed,
		Message: fmt.Sprintf("%s is not allowed through the guard", command),
		Detail:  why,
		Hint: "it was not executed; an operator can run it at Redis itself, " +
			"having made sure what it does to fencing",
	}
}

// UnknownCommand refuses a command whose effect the guard does not know.
func UnknownCommand(command string) *fence.Refusal {
	return &fence.Refusal{
		Reason:  fence.ErrNotAllowed,
		Message: fmt.Sprintf("%s is not allowed through the guard", command),
		Detail:  "the guard does not know this command, nor what it would do to the fence",
		Hint: "it was not executed; check its name; a command of a module, or of a newer server, " +
			"passes once an operator names it in GUARD_REDIS_TRUSTED_COMMANDS",
	}
}

// NeedsToken refuses a command of a session that has claimed nothing.
func NeedsToken(command string) *fence.Refusal {
	return &fence.Refusal{
		Reason:  fence.ErrNoToken,
		Message: fmt.Sprintf("%s needs a token", command),
		Detail: "this session has not claimed any; it may only log in, name itself and ask what the " +
			"server is",
		Hint: "it was not executed; first send: FENCE <resource> <token>, or set the client name " +
			NameForms +
			"; connections that only read belong at Redis itself, with a user that may not write",
	}
}

// OtherUser refuses what only another user may do than the one that the client's certificate names.
func OtherUser(only, why string) *fence.Refusal {
	return &fence.Refusal{
		Reason:  fence.ErrNotAllowed,
		Message: fmt.Sprintf("the client's certificate allows only user %q", only),
		Detail:  why,
		Hint: "log in as that user first (AUTH, or HELLO with AUTH), " +
			"or connect with another certificate",
	}
}

// BadClaim refuses a claim that is malformed, or that differs from the session's own.
func BadClaim(message, detail string, cause error) *fence.Refusal {
	return &fence.Refusal{
		Reason: fence.ErrMalformed, Message: message, Detail: detail, Cause: cause,
		Hint: "claim with FENCE <resource> <token> [<resource> <token> …]; " +
			"a resource is a-z, 0-9 and _, a token 1 to 9223372036854775807",
	}
}

// TooManyRefused ends a session that does not read the answers to its refused commands.
var TooManyRefused = &fence.Refusal{
	Reason:  fence.ErrNotAllowed,
	Message: "this session has too many refused commands",
	Detail:  "none of their answers has been sent yet, because replies are turned off or not read",
	Hint: "the session is ended, and no command after them was executed; " +
		"see which commands it sends, or read the answers sooner",
}

// Silence lists what keeps Redis from answering.
const Silence = "it is paused (CLIENT PAUSE), busy with a script or another long command, or out " +
	"of reach"

// RedisSilent refuses a newcomer because Redis answers nobody. detail is what is known of the
// reason.
func RedisSilent(c fence.Claim, detail string, cause error) *fence.Refusal {
	return redisBusy(c, "Redis answers nobody", detail, cause)
}

// RedisSlow refuses a newcomer because Redis answers reads and runs no scripts in time.
func RedisSlow(c fence.Claim, detail string, cause error) *fence.Refusal {
	return redisBusy(c, "Redis runs no scripts now, or too slowly",
		"writes are paused (CLIENT PAUSE), or it is busy with scripts or other long commands: "+detail,
		cause)
}

// RedisEnded refuses a newcomer whose connection Redis has closed during its admission.
func RedisEnded(c fence.Claim, cause error) *fence.Refusal {
	return &fence.Refusal{
		Reason: fence.ErrUnrevoked, Claim: c, Mark: c.Token, Cause: cause,
		Message: fmt.Sprintf("the connection to Redis was closed while this session of %q was admitted",
			c.Resource),
		Detail: "somebody ended it, or a guard ended all connections because Redis had lost the list " +
			"of sessions: " + cause.Error(),
		Hint: "nothing of this session was written, and the mark is raised; try again with the same " +
			"token",
	}
}

func redisBusy(c fence.Claim, what, detail string, cause error) *fence.Refusal {
	return &fence.Refusal{
		Reason: fence.ErrUnrevoked, Claim: c, Cause: cause,
		Message: fmt.Sprintf("%s, so no session of %q can be admitted", what, c.Resource),
		Detail:  detail,
		Hint: "wait, then try again with the same token; " +
			"SCRIPT KILL ends a script that has written nothing, and needs no token; " +
			"at Redis itself an operator ends a pause of writes (CLIENT UNPAUSE), " +
			"but one of all commands ends by its own time only",
	}
}
