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

// claims reads what a client claims: every fence.<resource>=<token> in its options, and as a startup
// parameter of its own, which Postgres treats alike. One resource that is named twice must carry one
// token. The claims come out sorted by resource.
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
			return nil, refusal.BadOption(fence.Claim{Resource: resource}, about(resource, err))
		}
		if other, ok := tokens[resource]; ok && other != token {
			err := fmt.Errorf("two tokens for one resource: %s and %s for %q", other, token, resource)
			return nil, refusal.BadOption(fence.Claim{Resource: resource, Token: token}, err)
		}
		tokens[resource] = token
	}
	claims := make([]marks.Presented, 0, len(tokens))
	for r, t := range tokens {
		claims = append(claims, marks.Presented{Resource: r, Token: t, Holder: holder})
	}
	slices.SortFunc(claims, func(a, b marks.Presented) int { return cmp.Compare(a.Resource, b.Resource) })
	return claims, nil
}

// about names the setting whose token cannot be read.
func about(r fence.Resource, err error) error {
	if errors.Is(err, fence.ErrBadResource) {
		return err
	}
	return fmt.Errorf("%s%s: %w", refusal.Prefix, r, err)
}
