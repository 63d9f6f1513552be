package refusal

import (
	"cmp"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/ringfence/ringfence/fence"
)

// Stale refuses a claim below the mark. holder raised the mark, at raised.
func Stale(c fence.Claim, mark fence.Token, holder string, raised time.Time) *fence.Refusal {
	return &fence.Refusal{
		Reason: fence.ErrStale, Claim: c, Mark: mark,
		Message: fmt.Sprintf("stale token: %s is older than the mark %s of %q",
			c.Token, mark, c.Resource),
		Detail: fmt.Sprintf("%s raised the mark of this database at %s; "+
			"what this session had not committed when it was ended is not written",
			cmp.Or(holder, "a newer leader"), raised.UTC().Format(time.RFC3339)),
		Hint: noLongerLeads,
	}
}

// noLongerLeads is the hint to a deposed leader.
const noLongerLeads = "this process no longer leads: stop, or campaign for a new token; " +
	"no retry with this one will succeed"

// Lost is Stale for a mark that the guard has seen and the store had lost.
func Lost(c fence.Claim, mark fence.Token, holder string, raised time.Time) *fence.Refusal {
	r := Stale(c, mark, holder, raised)
	r.Message += ", which the store had lost"
	r.Detail = fmt.Sprintf("the database was set back, or promoted without its last writes: this "+
		"guard has seen the mark that %s raised there at %s, and the database showed a lower one or "+
		"none; nothing was admitted",
		cmp.Or(holder, "a newer leader"), raised.UTC().Format(time.RFC3339))
	r.Hint = fmt.Sprintf("this process no longer leads: stop, or campaign for a new token; if that "+
		"is refused as well, an operator makes sure that no older leader runs, and runs: guard adopt %s",
		c.Resource)
	return r
}

// OtherIssuer refuses a claim whose issuer is not the mark's.
func OtherIssuer(c fence.Claim, mark fence.Token, issuer fence.Issuer) *fence.Refusal {
	return &fence.Refusal{
		Reason: fence.ErrOtherIssuer, Claim: c, Mark: mark,
		Message: fmt.Sprintf("token %s of %q comes from another issuer than the mark %s",
			c.Token, c.Resource, mark),
		Detail: fmt.Sprintf("the mark was raised under %s, the token comes from %s: "+
			"their numbers cannot be compared, so neither is older", issuer, c.Issuer),
		Hint: fmt.Sprintf("an operator checks first that leaders and guards have the same coordinator; "+
			"if it was rebuilt or replaced, and no older leader runs: guard adopt %s", c.Resource),
	}
}

// RolledBack refuses every token of an issuer of which a leader was seen below the mark, or at it
// as another candidate: the coordinator gives out again what it has given out before.
func RolledBack(c fence.Claim, mark fence.Token) *fence.Refusal {
	return &fence.Refusal{
		Reason: fence.ErrOtherIssuer, Claim: c, Mark: mark,
		Message: fmt.Sprintf("the coordinator went back: it gives out tokens of %q a second time",
			c.Resource),
		Detail: fmt.Sprintf("a leader has had a token that is not above the mark %s, "+
			"as after a restore from a backup; every token of issuer %s is refused for this resource, "+
			"until an operator acts", mark, c.Issuer),
		Hint: fmt.Sprintf("an operator stops all leaders, paused ones too, and runs: "+
			"guard adopt --new-issuer %s", c.Resource),
	}
}

// NotInstalled refuses because the store has no schema of ours, or one that this version cannot
// use.
func NotInstalled(detail string, cause error) *fence.Refusal {
	return &fence.Refusal{
		Reason: fence.ErrNotInstalled, Cause: cause,
		Message: "ringfence is not installed in this store",
		Detail:  detail,
		Hint:    "an operator runs: guard install",
	}
}

// OtherVersion refuses a store whose schema this program does not know.
func OtherVersion(version, needed int) *fence.Refusal {
	r := NotInstalled(fmt.Sprintf("the database has schema version %d, this program needs %d",
		version, needed), nil)
	r.Message = "ringfence is installed in this store in another version"
	if version > needed {
		r.Hint = "this program is older than the schema: run the newer one"
	}
	return r
}

// NotInstalledIn is NotInstalled for one of the databases of a server.
func NotInstalledIn(database string, r *fence.Refusal) *fence.Refusal {
	named := *r
	named.Message = strings.Replace(r.Message, "this store", fmt.Sprintf("database %q", database), 1)
	named.Hint = strings.Replace(r.Hint, "guard install", "guard install --databases "+
		Argument(item(database)), 1)
	return &named
}

// item quotes a name for a list of names, such as --databases, in which a comma separates them.
func item(name string) string {
	if isPlain(name) {
		return name
	}
	return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
}

// Argument quotes a word that a shell would take apart.
func Argument(word string) string {
	if isPlain(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// isPlain reports whether a name means itself in a shell, and in a list of names.
func isPlain(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_-.", r)
	})
}

// Unrevoked refuses a newcomer because older sessions could not be ended.
func Unrevoked(c fence.Claim, detail string, cause error) *fence.Refusal {
	return &fence.Refusal{
		Reason: fence.ErrUnrevoked, Claim: c, Mark: c.Token, Cause: cause,
		Message: fmt.Sprintf("older sessions of %q could not be ended in time", c.Resource),
		Detail:  detail,
		Hint: fmt.Sprintf("new sessions of %q are refused until they have ended; try again with the "+
			"same token, or end them in the database; other resources are not affected", c.Resource),
	}
}

// TimedOut refuses because an admission has run out of time.
func TimedOut(cause error) *fence.Refusal {
	return &fence.Refusal{
		Reason: fence.ErrUnrevoked, Cause: cause,
		Message: "admission did not finish in time",
		Detail:  cause.Error() + "; nothing was admitted, and the mark may be raised",
		Hint:    "try again with the same token; GUARD_ADMIT_TIMEOUT of the guard sets the time",
	}
}

// NotAuthorized refuses a claim of a role, or in Redis of a user, that may not claim the resource.
// The role is empty if its session has ended.
func NotAuthorized(c fence.Claim, role string) *fence.Refusal {
	return &fence.Refusal{
		Reason: fence.ErrNotAuthorized, Claim: c,
		Message: fmt.Sprintf("role %q may not claim %q", role, c.Resource),
		Detail: "authorization is on in this store, and the role is not on the list for this resource; " +
			"nothing was admitted",
		Hint: fmt.Sprintf("retrying does not help: log in as a role that may, or let an operator run: "+
			"guard allow %s %s",
			Argument(cmp.Or(role, "ROLE")), c.Resource),
	}
}

// NotLeader refuses a token that does not lead now; detail says who does.
func NotLeader(c fence.Claim, detail string) *fence.Refusal {
	return &fence.Refusal{
		Reason: fence.ErrNotLeader, Claim: c,
		Message: fmt.Sprintf("token %s does not lead %q", c.Token, c.Resource),
		Detail:  detail + "; nothing was admitted",
		Hint: "try again with this token if its term has just been won; otherwise this process does " +
			"not lead: stop, or campaign for a new token",
	}
}

// Unverified refuses because the coordinator did not answer. No token is admitted on trust.
func Unverified(c fence.Claim, cause error) *fence.Refusal {
	return &fence.Refusal{
		Reason: fence.ErrNoCoordinator, Claim: c, Cause: cause,
		Message: "the guard could not ask the coordinator who leads",
		Detail:  cause.Error() + "; nothing was admitted; open sessions continue",
		Hint:    "this process may still lead: try again with the same token",
	}
}

// MarkInDoubt refuses to raise a mark that may have been lost, where there is no coordinator to
// ask.
func MarkInDoubt(c fence.Claim, mark fence.Token) *fence.Refusal {
	return &fence.Refusal{
		Reason: fence.ErrMarkInDoubt, Claim: c, Mark: mark,
		Message: fmt.Sprintf("the mark of %q may have been lost, and there is no coordinator to ask",
			c.Resource),
		Detail: "the store was restored, copied or failed over since the mark was raised, " +
			"and this guard did not see it before; nothing was admitted",
		Hint: fmt.Sprintf("an operator sets GUARD_COORDINATOR, or makes sure that no older leader "+
			"runs, and runs: guard adopt %s", c.Resource),
	}
}

// Unraised refuses a transaction or a script whose token is not the mark.
func Unraised(c fence.Claim, mark fence.Token, detail string) *fence.Refusal {
	return &fence.Refusal{
		Reason: fence.ErrNotRaised, Claim: c, Mark: mark,
		Message: fmt.Sprintf("the mark of %q is not raised to token %s", c.Resource, c.Token),
		Detail:  detail,
		Hint: "raise the mark with this token, then try again " +
			"(SQL: call take or campaign until ready is true; Go: fence.Claim.RetryRaised)",
	}
}

// NoCommonName refuses a client whose certificate has to name its user or role, and names nobody.
func NoCommonName() *fence.Refusal {
	return &fence.Refusal{
		Reason:  fence.ErrNotAllowed,
		Message: "the client's certificate has no common name",
		Detail: "nothing was executed: GUARD_TLS_CLIENT_AUTH=verify-full lets a client be only whom " +
			"its certificate names",
		Hint: "connect with a certificate whose common name is the role (in Redis, the user); " +
			"whoever issues the certificates has to put it there",
	}
}

// Setup is the error of a server, a database or a role that cannot be guarded: what is wrong, and
// what to do about it.
func Setup(what, hint string) *fence.SetupError { return &fence.SetupError{What: what, Hint: hint} }

// Replica is Setup at a server that follows another one: a failover may promote it.
func Replica(what string) *fence.SetupError {
	return &fence.SetupError{
		What: what, Passes: true,
		Hint: "name the primary; a guard that serves waits until this server is promoted",
	}
}
