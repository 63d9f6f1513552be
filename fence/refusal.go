package fence

import (
	"errors"
	"fmt"
	"strings"
)

// Reason says why a store or a guard refused, in one word, for logs and metrics. It is an error: a
// Refusal matches its Reason with errors.Is. No reason says that a write may have landed, because a
// refusal comes before the first command. Each has a code in Postgres and one in Redis, so that
// programs need not parse text; docs/operating.md lists them.
type Reason string

const (
	// ErrStale: a newer leader has raised the mark above the token. It is final: retrying with this
	// token cannot help.
	ErrStale Reason = "stale"
	// ErrNoToken: the session claims nothing.
	ErrNoToken Reason = "no_token"
	// ErrMalformed: the resource or the token is malformed, or given twice.
	ErrMalformed Reason = "malformed"
	// ErrOtherIssuer: the mark was raised under another coordinator. An operator decides (guard
	// adopt).
	ErrOtherIssuer Reason = "other_issuer"
	// ErrNotInstalled: the store's schema is missing or does not fit. Run guard install.
	ErrNotInstalled Reason = "not_installed"
	// ErrUnrevoked: older sessions were not gone in time. The mark stays raised. Retry with the same
	// token.
	ErrUnrevoked Reason = "unrevoked"
	// ErrNotLeader: the coordinator says that another token leads, or none. Retry with the same token
	// if its term has just been won; otherwise stop.
	ErrNotLeader Reason = "not_leader"
	// ErrNoCoordinator: the coordinator could not be asked whether the token leads, so it may lead.
	// Retry with the same token.
	ErrNoCoordinator Reason = "no_coordinator"
	// ErrNotRaised: the mark is not raised to the token, or not since the store was restarted or
	// failed over. Raise it, and retry (RetryRaised).
	ErrNotRaised Reason = "not_raised"
	// ErrMarkInDoubt: the mark may have been lost, and there is no coordinator to ask. An operator
	// decides (guard adopt).
	ErrMarkInDoubt Reason = "mark_in_doubt"
	// ErrNotAllowed: the guard never lets this command through.
	ErrNotAllowed Reason = "not_allowed"
	// ErrNotAuthorized: the role or user may not claim the resource. An operator decides (guard
	// allow).
	ErrNotAuthorized Reason = "not_authorized"
)

// Error returns the reason with spaces, such as "not leader".
func (r Reason) Error() string { return strings.ReplaceAll(string(r), "_", " ") }

// Is lets Permanent and Temporary find a reason in an error.
func (r Reason) Is(target error) bool {
	return target == errPermanent && r.Permanent() || target == errTemporary && r.Temporary()
}

// errPermanent is matched by every reason that is permanent, errTemporary by every temporary one.
var errPermanent, errTemporary = errors.New("permanent"), errors.New("temporary")

// Temporary reports whether the same token may be admitted later, after a raise where the reason is
// ErrNotRaised.
func (r Reason) Temporary() bool {
	switch r {
	case ErrUnrevoked, ErrNotLeader, ErrNoCoordinator, ErrNotRaised:
		return true
	}
	return false
}

// Permanent reports whether the leader of a later term would be refused for the same reason, until
// somebody changes the program, its settings, the store or the coordinator. Campaigning again helps
// after any other reason.
func (r Reason) Permanent() bool { return r != ErrStale && !r.Temporary() }

// Permanent reports whether err is a refusal with a permanent reason or a SetupError, or contains
// one: campaigning again does not help.
func Permanent(err error) bool { return errors.Is(err, errPermanent) }

// Temporary reports whether err is a refusal with a temporary reason, or contains one.
func Temporary(err error) bool { return errors.Is(err, errTemporary) }

// Errors of ParseToken and ParseResource.
var (
	// ErrBadToken is returned for a token that is not 1 to 2^63-1 in decimal.
	ErrBadToken = errors.New("not a token")
	// ErrBadResource is returned for a name that does not have a Resource's form.
	ErrBadResource = errors.New("not a resource name")
)

// Refusal is an answer that admits nothing. No command of the refused session has run, so no write
// has landed. errors.Is matches it with its Reason.
type Refusal struct {
	Reason  Reason
	Claim   Claim  // what was presented; zero where nothing was
	Mark    Token  // the store's mark; zero if not known
	Message string // what happened
	Detail  string // why
	Hint    string // what to do
	Cause   error  // an underlying error, or nil
}

// Error returns message, detail and hint in one line.
func (r *Refusal) Error() string {
	var b strings.Builder
	b.WriteString(r.Message)
	if r.Detail != "" {
		fmt.Fprintf(&b, " — %s", r.Detail)
	}
	if r.Hint != "" {
		fmt.Fprintf(&b, " (%s)", r.Hint)
	}
	return b.String()
}

// Unwrap returns the cause.
func (r *Refusal) Unwrap() error { return r.Cause }

// Is matches the reason.
func (r *Refusal) Is(target error) bool { return errors.Is(r.Reason, target) }
