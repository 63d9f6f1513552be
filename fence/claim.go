package fence

import "fmt"

// Issuer is the identity of the coordinator whose counter tokens come from. Tokens of different issuers cannot be
// compared: a rebuilt coordinator counts from the start again.
type Issuer string

// Unverified is the issuer of tokens that a guard without a coordinator takes at their word.
const Unverified Issuer = "unverified"

// Claim is what a newcomer presents to a store: this term, of this resource, held by this process.
type Claim struct {
	Resource Resource
	Token    Token
	Issuer   Issuer
	Holder   string // who: for people and logs, never for a decision
}

func (c Claim) String() string { return fmt.Sprintf("%s=%s", c.Resource, c.Token) }
