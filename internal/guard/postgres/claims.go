package postgres

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/refusal"
)

// claims reads what a client claims: every `fence.<resource>=<token>` in its options, and as a startup parameter of its
// own, which Postgres treats alike. The server ignores case in a setting's name and takes '-' for '_', so both are
// folded; one resource named twice has to carry one token. The claims come out by resource, without issuer.
func (s *startup) claims(holder string) ([]fence.Claim, error) {
	settings, err := parseOptions(s.get("options"))
	if err != nil {
		return nil, refusal.BadOption(fence.Claim{}, err)
	}
	for _, p := range s.params {
		settings = append(settings, setting(p))
	}
	byResource := map[fence.Resource]fence.Claim{}
	for _, set := range settings {
		resource, ok := refusal.OfSetting(set.name)
		if !ok {
			continue
		}
		c, err := refusal.Claim(resource, set.value)
		if err != nil {
			return nil, refusal.BadOption(c, about(c, err))
		}
		if other, ok := byResource[c.Resource]; ok && other.Token != c.Token {
			return nil, refusal.BadOption(c, fmt.Errorf("two tokens for one resource: %s and %s for %q", other.Token, c.Token, c.Resource))
		}
		c.Holder = holder
		byResource[c.Resource] = c
	}
	out := make([]fence.Claim, 0, len(byResource))
	for _, c := range byResource {
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b fence.Claim) int { return strings.Compare(string(a.Resource), string(b.Resource)) })
	return out, nil
}

// about names the setting whose token cannot be read.
func about(c fence.Claim, err error) error {
	if errors.Is(err, fence.ErrBadResource) {
		return err
	}
	return fmt.Errorf("%s%s: %w", refusal.Prefix, c.Resource, err)
}
