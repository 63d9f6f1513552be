package postgres

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/refusal"
)

// claims returns what a client claims, sorted by resource: every fence.<resource>=<token> in its
// options or among its startup parameters, which Postgres treats alike. A resource that is named
// twice must have the same token both times.
func (s *startup) claims(holder string) ([]marks.Presented, error) {
	settings, err := parseOptions(s.get("options"))
	if err != nil {
		return nil, refusal.BadOption(fence.Claim{}, err)
	}
	for _, p := range s.params {
		settings = append(settings, setting(p))
	}

	tokens := map[fence.Resource]fence.Token{}
	for _, set := range settings {
		name, ok := refusal.OfSetting(set.name)
		if !ok {
			continue
		}
		resource, token, err := refusal.ParseClaim(name, set.value)
		if err != nil {
			claim := fence.Claim{Resource: resource}
			return nil, refusal.BadOption(claim, withSetting(resource, err))
		}
		if other, ok := tokens[resource]; ok && other != token {
			claim := fence.Claim{Resource: resource, Token: token}
			err := fmt.Errorf("two tokens for one resource: %s and %s for %q",
				other, token, resource)
			return nil, refusal.BadOption(claim, err)
		}
		tokens[resource] = token
	}

	claims := make([]marks.Presented, 0, len(tokens))
	for r, t := range tokens {
		claims = append(claims, marks.Presented{Resource: r, Token: t, Holder: holder})
	}
	slices.SortFunc(claims, func(a, b marks.Presented) int {
		return cmp.Compare(a.Resource, b.Resource)
	})
	return claims, nil
}

// withSetting adds the name of the setting that has a malformed token to err. The error for a bad
// resource name quotes that name already.
func withSetting(r fence.Resource, err error) error {
	if errors.Is(err, fence.ErrBadResource) {
		return err
	}
	return fmt.Errorf("%s%s: %w", refusal.Prefix, r, err)
}
