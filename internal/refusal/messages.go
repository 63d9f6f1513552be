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
	if holder == "" {
		holder = "a newer leader"
	}
	return &fence.Refusal{
		Reason: fence.ErrStale, Claim: c, Mark: mark,
		Message: fmt.Sprintf("stale token: %s is older than the mark %s of %q",
			c.Token, mark, c.Resource),
		Detail: fmt.Sprintf("%s has led %q since %s; "+
			"nothing that this session had not committed before it was ended is written",
			holder, c.Resource, raised.UTC().Format(time.RFC3339)),
		Hint: noLongerLeads,
	}
}

// noLongerLeads is the hint to a deposed leader.
const noLongerLeads = "this process no longer leads: stop, or campaign for a new token; " +
	"this one will never be taken again"

// Lost is Stale for a mark that the guard has seen and the store has lost.
func Lost(c fence.Claim, mark fence.Token, holder string, raised time.Time) *fence.Refusal {
	r := Stale(c, mark, holder, raised)
	r.Message += ", which the store has lost"
	r.Detail = fmt.Sprintf("this guard has seen %s lead %q since %s, and the store shows a lower "+
		"mark or none: it was set back, or promoted without its last writes; nothing was admitted",
		cmp.Or(holder, "a newer leader"), c.Resource, raised.UTC().Format(time.RFC3339))
	r.Hint = fmt.Sprintf("this process no longer leads: stop, or campaign for a new token; if that "+
		"is refused, too, an operator makes sure that no older leader runs, and runs: guard adopt %s",
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
			"their numbers cannot be compared", issuer, c.Issuer),
		Hint: fmt.Sprintf("if the coordinator was rebuilt or replaced, and no older leader runs, "+
			"an operator runs: guard adopt %s", c.Resource),
	}
}

// RolledBack refuses every token of an issuer of which a leader was seen below the mark, or at it as
// another candidate: the coordinator gives out again what it has given out before.
func RolledBack(c fence.Claim, mark fence.Token) *fence.Refusal {
	return &fence.Refusal{
		Reason: fence.ErrOtherIssuer, Claim: c, Mark: mark,
		Message: fmt.Sprintf("the coordinator went back: it gives out tokens of %q a second time", c.Resource),
		Detail: fmt.Sprintf("a leader has had a token that is not above the mark %s, "+
			"as after a restore from a backup; nothing of issuer %s is admitted any more", mark, c.Issuer),
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
	named.Hint = strings.Replace(r.Hint, "guard install", "guard install --databases "+argument(database), 1)
	return &named
}

// argument quotes a name that a shell would take apart.
func argument(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_-.", r)
	}) {
		return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
	}
	return name
}

// Unrevoked refuses a newcomer because older sessions could not be ended.
func Unrevoked(c fence.Claim, detail string, cause error) *fence.Refusal {
	return &fence.Refusal{
		Reason: fence.ErrUnrevoked, Claim: c, Mark: c.Token, Cause: cause,
		Message: fmt.Sprintf("older sessions of %q could not be ended in time", c.Resource),
		Detail:  detail,
		Hint: "the mark stays raised and nobody is admitted: end those sessions in the database, " +
			"then try again with the same token",
	}
}

// TimedOut refuses because an admission has run out of time.
func TimedOut(cause error) *fence.Refusal {
	return &fence.Refusal{
		Reason: fence.ErrUnrevoked, Cause: cause,
		Message: "admission did not finish in time",
		Detail:  cause.Error(),
		Hint:    "nothing was admitted; the mark may be raised; try again with the same token",
	}
}

// NotAuthorized refuses a claim of a role, or in Redis of a user, that may not claim the resource.
// The role is empty if its session has ended.
func NotAuthorized(c fence.Claim, role string) *fence.Refusal {
	return &fence.Refusal{
		Reason: fence.ErrNotAuthorized, Claim: c,
		Message: fmt.Sprintf("role %q may not claim %q", role, c.Resource),
		Detail: "authorization is on in this store, and nobody has allowed it; " +
			"nothing was admitted, and the mark is as before",
		Hint: fmt.Sprintf("log in as a role that may, or let an operator run: guard allow %s %s",
			role, c.Resource),
	}
}

// NotLeader refuses a token that does not lead now; detail says who does.
func NotLeader(c fence.Claim, detail string) *fence.Refusal {
	return &fence.Refusal{
		Reason: fence.ErrNotLeader, Claim: c,
		Message: fmt.Sprintf("token %s does not lead %q", c.Token, c.Resource),
		Detail:  detail,
		Hint:    "present the token of a term that was won: a token is admitted only while its holder leads",
	}
}

// Unverified refuses because the coordinator did not answer. Nobody is admitted on trust.
func Unverified(c fence.Claim, cause error) *fence.Refusal {
	return &fence.Refusal{
		Reason: fence.ErrNoCoordinator, Claim: c, Cause: cause,
		Message: "the coordinator could not be asked whose token this is",
		Detail:  cause.Error(),
		Hint: "nothing was written; open sessions under the present mark go on; " +
			"try again when the coordinator answers",
	}
}

// MarkInDoubt refuses to raise a mark that may have been lost, where there is no coordinator to
// ask.
func MarkInDoubt(c fence.Claim, mark fence.Token) *fence.Refusal {
	return &fence.Refusal{
		Reason: fence.ErrNotLeader, Claim: c, Mark: mark,
		Message: fmt.Sprintf("the mark of %q may have been lost, and there is no coordinator to ask",
			c.Resource),
		Detail: "the store was restored, copied or failed over since the mark was raised, " +
			"and this guard did not see it before",
		Hint: fmt.Sprintf("set GUARD_COORDINATOR, or make sure that no older leader runs and run: "+
			"guard adopt %s", c.Resource),
	}
}

// Unraised refuses a transaction or a script whose token is not the mark.
func Unraised(c fence.Claim, mark fence.Token, detail string) *fence.Refusal {
	return &fence.Refusal{
		Reason: fence.ErrNotLeader, Claim: c, Mark: mark,
		Message: fmt.Sprintf("the mark of %q is not raised to token %s", c.Resource, c.Token),
		Detail:  detail,
		Hint:    "raise the mark with this token, then try again",
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
