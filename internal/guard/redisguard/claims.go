package redisguard

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/refusal"
)

// parseClaims reads the claims in a command: FENCE, or a client name by CLIENT SETNAME or HELLO. No
// other command carries claims, nor does a name that does not begin with "fence.". The error is a
// refusal of a malformed claim.
func parseClaims(args [][]byte) (claims []marks.Presented, isFence bool, err error) {
	if equalFold(args[0], "FENCE") {
		claims, err = parsePairs(args[1:])
		return claims, true, err
	}
	name, ok := clientName(args)
	if !ok {
		return nil, false, nil
	}
	resource, token, carries, err := refusal.OfClientName(string(name))
	switch {
	case !carries:
		return nil, false, nil
	case err != nil:
		return nil, false, refusal.BadClaim("the client name "+excerpt(name)+" claims nothing",
			"a name that begins with fence. has to be "+refusal.NameForms, nil)
	}
	claims, err = parsePairs([][]byte{[]byte(resource), []byte(token)})
	return claims, false, err
}

// parsePairs reads pairs of resource and token.
func parsePairs(pairs [][]byte) ([]marks.Presented, error) {
	if len(pairs) == 0 || len(pairs)%2 != 0 {
		return nil, refusal.BadClaim("FENCE takes pairs of resource and token",
			fmt.Sprintf("there are %d arguments", len(pairs)), nil)
	}
	if len(pairs) > 2*refusal.MaxClaims {
		return nil,
			refusal.BadClaim(fmt.Sprintf("a session claims %d resources at most", refusal.MaxClaims),
				fmt.Sprintf("FENCE names %d; nothing was admitted; open a connection for each part",
					len(pairs)/2),
				refusal.ErrTooManyClaims)
	}
	var claims []marks.Presented
	seen := make(map[fence.Resource]bool)
	for i := 0; i < len(pairs); i += 2 {
		r, rerr := fence.ParseResource(string(pairs[i]))
		token, terr := fence.ParseToken(string(pairs[i+1]))
		if err := errors.Join(rerr, terr); err != nil {
			return nil, refusal.BadClaim("the claim is malformed", err.Error(), err)
		}
		if seen[r] {
			return nil, refusal.BadClaim(fmt.Sprintf("%q is claimed twice", r),
				"a session has one token for each resource", nil)
		}
		seen[r] = true
		claims = append(claims, marks.Presented{Resource: r, Token: token})
	}
	return claims, nil
}

// within reports whether a session was admitted under all these claims.
func within(claims, admitted []marks.Presented) bool {
	return !slices.ContainsFunc(claims, func(c marks.Presented) bool {
		return !slices.ContainsFunc(admitted, func(a marks.Presented) bool {
			return a.Resource == c.Resource && a.Token == c.Token
		})
	})
}

// keepsToken refuses a claim that differs from the session's own.
func keepsToken(admitted []marks.Presented) *fence.Refusal {
	return refusal.BadClaim("a session keeps its token for life", fmt.Sprintf(
		"this one was admitted under %v: another token or resource needs another connection",
		admitted), nil)
}
