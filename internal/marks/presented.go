package marks

import "github.com/ringfence/ringfence/fence"

// Presented is a claim as a client presents it: nobody has confirmed it, and it has no issuer. An
// Authority makes it a fence.Claim, which is all that a Store takes.
type Presented struct {
	Resource fence.Resource
	Token    fence.Token
	Holder   string // who the client says it is, for people
}

// Under is the claim under an issuer. With an empty one it is only good for a refusal.
func (p Presented) Under(is fence.Issuer) fence.Claim {
	return fence.Claim{Resource: p.Resource, Token: p.Token, Issuer: is, Holder: p.Holder}
}

// Under puts claims under an issuer.
func Under(is fence.Issuer, presented []Presented) []fence.Claim {
	claims := make([]fence.Claim, len(presented))
	for i, p := range presented {
		claims[i] = p.Under(is)
	}
	return claims
}

// Present returns claims as a client presents them, to be confirmed again.
func Present(claims ...fence.Claim) []Presented {
	presented := make([]Presented, len(claims))
	for i, c := range claims {
		presented[i] = Presented{c.Resource, c.Token, c.Holder}
	}
	return presented
}

// String is the claim as people read it.
func (p Presented) String() string { return p.Under("").String() }
