package refusal

import (
	"fmt"

	"github.com/ringfence/ringfence/fence"
)

// Prefix begins the name of every setting and every client name that carries a claim.
const Prefix = "fence."

// MaxClaims is how many resources one session can claim. The work of an admission grows with the
// square of it, and a database may run nothing else meanwhile.
const MaxClaims = 32

// ErrTooManyClaims is the error of a session that claims more.
var ErrTooManyClaims = fmt.Errorf("a session claims %d resources at most", MaxClaims)

// ParseClaim reads a resource and a token. The error matches fence.ErrBadResource or
// fence.ErrBadToken; after the latter the resource is good.
func ParseClaim(resource, token string) (r fence.Resource, t fence.Token, err error) {
	if r, err = fence.ParseResource(resource); err != nil {
		return "", 0, err
	}
	t, err = fence.ParseToken(token)
	return r, t, err
}
