package fence

import (
	"errors"
	"fmt"
	"strings"
)

// Reason says why a store or a guard refused. Each reason has a code in Postgres and one in Redis,
// so that programs need not parse text; docs/operating.md lists the codes.
type Reason int

const (
	ReasonStale         Reason = iota + 1 // a newer leader has raised the mark above the token; final
	ReasonNoToken                         // the session claims nothing
	ReasonMalformed                       // the resource or the token is malformed, or given twice
	ReasonOtherIssuer                     // the mark belongs to another coordinator
	ReasonNotInstalled                    // the store's schema is missing or does not fit
	ReasonUnrevoked                       // older sessions did not end in time; the mark stays raised
	ReasonNotLeader                       // the token does not lead
	ReasonNotAllowed                      // the guard never lets this command through
	ReasonNotAuthorized                   // the role may not claim the resource
	// The coordinator could not be asked whether the token leads. Guards count it apart; on the wire, and
	// for errors.Is, it is ReasonNotLeader.
	ReasonNoCoordinator
)

// Refusal is an answer that admits nothing. No command of the refused session has run, so no write
// has landed. errors.Is matches it with the error of its Reason (ErrStale, ErrNoToken, …).
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

// Is matches the sentinel of the reason.
func (r *Refusal) Is(target error) bool { return target == sentinels[r.Reason] }

// Sentinels of refusals. None of them says that a write may have landed: a refusal comes before the
// first command.
var (
	// ErrStale is returned when a store's mark is above the token. It is final: retrying with this
	// token cannot help.
	ErrStale = errors.New("stale token")
	// ErrNoToken is returned when a session claims nothing.
	ErrNoToken = errors.New("no token")
	// ErrBadToken is returned for a token that is not 1 to 2^63-1 in decimal.
	ErrBadToken = errors.New("not a token")
	// ErrBadResource is returned for a name that does not have a Resource's form.
	ErrBadResource = errors.New("not a resource name")
	// ErrOtherIssuer is returned when the mark was raised under another coordinator. An operator
	// decides (guard adopt).
	ErrOtherIssuer = errors.New("token of another issuer")
	// ErrNotInstalled is returned by a store whose schema is missing or does not fit. Run guard
	// install.
	ErrNotInstalled = errors.New("ringfence is not installed in this store")
	// ErrUnrevoked is returned when older sessions were not gone in time. Retry with the same token.
	ErrUnrevoked = errors.New("older sessions could not be ended")
	// ErrNotLeader is returned for a token that is not the current leader's, or if no coordinator
	// could confirm it.
	ErrNotLeader = errors.New("not the current leader's token")
	// ErrNotAllowed is returned for a command that the guard refuses by name.
	ErrNotAllowed = errors.New("not allowed through the guard")

	// ErrNotAuthorized is returned for a role or user that may not claim the resource. An operator
	// decides (guard allow).
	ErrNotAuthorized = errors.New("the role may not claim this resource")

	// ErrMalformed is matched by every refusal for a resource or token that is malformed or given
	// twice.
	ErrMalformed = errors.New("malformed resource or token")
)

var sentinels = map[Reason]error{
	ReasonStale:         ErrStale,
	ReasonNoToken:       ErrNoToken,
	ReasonMalformed:     ErrMalformed,
	ReasonOtherIssuer:   ErrOtherIssuer,
	ReasonNotInstalled:  ErrNotInstalled,
	ReasonUnrevoked:     ErrUnrevoked,
	ReasonNotLeader:     ErrNotLeader,
	ReasonNotAllowed:    ErrNotAllowed,
	ReasonNotAuthorized: ErrNotAuthorized,
	ReasonNoCoordinator: ErrNotLeader,
}

var reasonNames = map[Reason]string{
	ReasonStale:         "stale",
	ReasonNoToken:       "no_token",
	ReasonMalformed:     "malformed",
	ReasonOtherIssuer:   "other_issuer",
	ReasonNotInstalled:  "not_installed",
	ReasonUnrevoked:     "unrevoked",
	ReasonNotLeader:     "not_leader",
	ReasonNotAllowed:    "not_allowed",
	ReasonNotAuthorized: "not_authorized",
	ReasonNoCoordinator: "no_coordinator",
}

// String returns the reason in one word, for logs and metrics.
func (r Reason) String() string { return reasonNames[r] }
