package marks

import (
	"context"
	"fmt"
	"path"
	"regexp"

	"github.com/ringfence/ringfence/fence"
)

// Authorizer is what an operator does about who may claim what in a store. Register refuses, while
// authorization is on, a session whose role may not claim one of its resources (ErrNotAuthorized).
// It does so before anything else, so nobody raises a mark for such a session.
type Authorizer interface {
	// Authorization reads all of it.
	Authorization(ctx context.Context) (Authorization, error)

	// Allow lets a role claim the resources of these patterns. It may be repeated, and makes rows that
	// do not count any more (Allowed.Why) count again.
	Allow(ctx context.Context, role string, all ...Pattern) error

	// Forbid takes back what Allow gave: these patterns exactly, or all of the role if none is named.
	// It returns how many it has removed. Sessions that are admitted stay.
	Forbid(ctx context.Context, role string, all ...Pattern) (int, error)

	// Authorize switches authorization on or off. It ends no session.
	Authorize(ctx context.Context, on bool) error
}

// Authorization is who may claim what in one store.
type Authorization struct {
	On      bool      `json:"on"`
	Allowed []Allowed `json:"allowed"` // sorted by role and pattern

	// Strangers are the sessions that are admitted now and would be refused if they came while
	// authorization is on.
	Strangers []Stranger `json:"strangers"`
}

// Allowed says that a role may claim the resources of a pattern.
type Allowed struct {
	Role    string  `json:"role"`
	Pattern Pattern `json:"resource"`
	Why     string  `json:"why,omitempty"` // it does not count; empty if it does
}

// Stranger is an admitted session whose role may not claim its resource.
type Stranger struct {
	Resource fence.Resource `json:"resource"`
	Role     string         `json:"role"`
	ID       int64          `json:"session"`
	Client   string         `json:"client"` // address and name, for people
}

// String describes the session in one line.
func (s Stranger) String() string {
	return fmt.Sprintf("session %d of %s under %s (%s)", s.ID, s.Role, s.Resource, s.Client)
}

// Pattern is a resource, or a pattern in which * stands for any text.
type Pattern string

var patternForm = regexp.MustCompile(`^[a-z*][a-z0-9_*]{0,47}$`)

// ParsePattern checks the form of a pattern.
func ParsePattern(text string) (Pattern, error) {
	if !patternForm.MatchString(text) {
		return "", fmt.Errorf("%.60q is not a resource or a pattern such as orders_*: "+
			"it has a-z, 0-9, _ and *, 48 characters at most, and begins with a letter or *", text)
	}
	return Pattern(text), nil
}

// Fits reports whether a resource fits the pattern.
func (p Pattern) Fits(r fence.Resource) bool {
	ok, err := path.Match(string(p), string(r))
	return ok && err == nil
}
