// Package stores opens the store at a URL, as a leader sees it: a [fence.Raiser]. Whatever differs
// by kind of store is in a kind, as in postgres.go. A new one is such a file, and an entry of
// known.
package stores

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/internal/settings"
)

// kind is what the leader knows of a kind of store.
type kind struct {
	Schemes []string // of its URL
	Form    string   // of its URL, for help texts
	Open    Open
	check   func(url string) error // says why a URL cannot be used, without its secrets
	// foreign makes a URL safe that a client of this process has named.
	foreign func(settings.URL) (settings.URL, error)
	// loginRefused reports whether the store has refused the user or the password of its URL.
	loginRefused func(error) bool
	hint         func(error) string // of the store about its error; may be nil
	logTo        func(*slog.Logger) // for what the driver logs by itself; nil if it does not
}

// known lists every kind of store.
var known = []kind{postgres, redis}

// kindOf returns the kind of store that a URL names, or nil.
func kindOf(u settings.URL) *kind {
	at := slices.IndexFunc(known, func(k kind) bool { return slices.Contains(k.Schemes, u.Scheme()) })
	if at < 0 {
		return nil
	}
	return &known[at]
}

// Open returns a Raiser for a URL. The Raiser queries the coordinator if no guard is in front of
// the database.
type Open func(url string, c elector.Observer) fence.Raiser

// Table maps URL schemes to stores.
type Table map[string]Open

// All has every store, by the scheme of its URL in LEADER_STORES. Forms says in help texts what the
// URLs look like.
var All, Forms = tables()

func tables() (all Table, forms string) {
	all = Table{}
	var each []string
	for _, k := range known {
		each = append(each, k.Form)
		for _, scheme := range k.Schemes {
			all[scheme] = k.Open
		}
	}
	return all, strings.Join(each, ", ")
}

// LogTo sends what the drivers of stores log by themselves to log, for the whole process.
func LogTo(log *slog.Logger) {
	for _, k := range known {
		if k.logTo != nil {
			k.logTo(log)
		}
	}
}

// Schemes returns the known schemes, sorted.
func (t Table) Schemes() []string { return slices.Sorted(maps.Keys(t)) }

// Check returns what is wrong with URLs that stand in this setting.
func (t Table) Check(setting string, urls settings.URLs) (problems []error) {
	for i, u := range urls {
		if err := t.check(u); err != nil {
			problems = append(problems, fmt.Errorf("%s: number %d: %w", setting, i+1, err))
		}
	}
	return problems
}

func (t Table) check(u settings.URL) error {
	if t[u.Scheme()] == nil {
		return fmt.Errorf("there is no store %s://; there is %s://", u.Scheme(),
			strings.Join(t.Schemes(), "://, "))
	}
	if k := kindOf(u); k != nil {
		return k.check(u.Reveal())
	}
	return nil
}

// Raisers returns the stores at these URLs, whose schemes must be in the table. Each raise has the
// timeout, and its error is a *Error. Close them at the end.
func (t Table) Raisers(
	urls settings.URLs, c elector.Observer, timeout time.Duration,
) []fence.Raiser {
	var all []fence.Raiser
	for _, u := range urls {
		all = append(all, &named{Raiser: t[u.Scheme()](u.Reveal(), c), url: u, timeout: timeout})
	}
	return all
}

// Close closes what these stores keep open for further raises.
func Close(all []fence.Raiser) {
	for _, r := range all {
		if n, ok := r.(*named); ok {
			r = n.Raiser
		}
		if c, ok := r.(interface{ Close() }); ok {
			c.Close()
		}
	}
}

// named adds a timeout to a raise, and the store's URL to its errors.
type named struct {
	fence.Raiser
	url     settings.URL
	timeout time.Duration
}

// Raise implements fence.Raiser. Its error is a *Error.
func (s *named) Raise(ctx context.Context, claim fence.Claim) error {
	return Bounded(ctx, s.url, s.timeout, func(ctx context.Context) error {
		return s.Raiser.Raise(ctx, claim)
	})
}

// Bounded raises a mark at a URL within a timeout. Its error is a *Error.
func Bounded(
	ctx context.Context, u settings.URL, timeout time.Duration, raise func(context.Context) error,
) error {
	late := fmt.Errorf("no answer within LEADER_RAISE_TIMEOUT=%s", timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, late)
	defer cancel()
	err := raise(ctx)
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	refused := func(k kind) bool { return k.loginRefused(err) }
	if slices.ContainsFunc(known, refused) { // another term could not log in either
		hint := cmp.Or(Hint(err), "check user and password in the URL, and what the store lets log in")
		err = &fence.SetupError{What: err.Error(), Hint: hint, Cause: err}
	}
	return &Error{URL: u, Err: err}
}

// Error says which store failed to raise the mark. The mark may be raised there nevertheless.
type Error struct {
	URL settings.URL
	Err error
}

// Error implements error. The text contains no secret.
func (e *Error) Error() string { return e.URL.Scrub(fmt.Sprintf("%s: %v", e.URL, e.Err)) }

// Hint returns what a database or a guard says is to be done about its error, or "". The text of a
// fence.Refusal has it already.
func Hint(err error) string {
	if _, told := errors.AsType[*fence.Refusal](err); told {
		return ""
	}
	for _, k := range known {
		if k.hint == nil {
			continue
		}
		if hint := k.hint(err); hint != "" {
			return hint
		}
	}
	return ""
}

// Unwrap returns the store's error, for errors.Is and errors.As.
func (e *Error) Unwrap() error { return e.Err }
