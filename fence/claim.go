package fence

import (
	"errors"
	"fmt"
	"slices"
)

// Issuer is the identity of the coordinator whose counter tokens come from. Tokens of different
// issuers cannot be compared: a rebuilt coordinator counts from the start again.
type Issuer string

// Claim is what a session presents to a store: the term of a resource that this process holds.
type Claim struct {
	Resource Resource
	Token    Token
	Issuer   Issuer
	Holder   string // for people and logs; nothing depends on it; see elector.CheckHolder

	// Candidate is the identity of the candidate whose term it is (elector.Candidate.ID). A
	// coordinator that was restored gives the same token to another candidate sooner or later. It is
	// empty where nobody knows it: a database session presents only a number.
	Candidate string
}

func (c Claim) String() string { return fmt.Sprintf("%s=%s", c.Resource, c.Token) }

// IsStale reports whether err contains a refusal of this claim as stale. A refusal that names
// another resource or token is about another term and does not count. One that names none counts.
func (c Claim) IsStale(err error) bool {
	switch e := err.(type) {
	case *Refusal:
		own := e.Claim.Resource == "" || e.Claim.Resource == c.Resource && e.Claim.Token == c.Token
		return own && errors.Is(e, ErrStale)
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(e.Unwrap(), c.IsStale)
	case interface{ Unwrap() error }:
		return c.IsStale(e.Unwrap())
	}
	return errors.Is(err, ErrStale)
}
