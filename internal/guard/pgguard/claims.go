package pgguard

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/guard/pgguard/wire"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/postgres/pgoptions"
	"github.com/ringfence/ringfence/internal/refusal"
)

// claims returns what a client claims, sorted by resource: every fence.<resource>=<token> in its
// options or among its startup parameters, which Postgres treats alike. A resource that is named
// twice must have the same token both times.
func (s *startup) claims(holder string) ([]marks.Presented, error) {
	settings, err := parseOptions(s.Get("options"))
	if err != nil {
		return nil, refusal.BadOption(fence.Claim{}, err)
	}
	tokens := map[fence.Resource]fence.Token{}
	for _, set := range slices.Concat(settings, s.Params) {
		name, ok := refusal.OfSetting(set.Name)
		if !ok {
			continue
		}
		resource, token, err := refusal.ParseClaim(name, set.Value)
		if err != nil {
			if !errors.Is(err, fence.ErrBadResource) { // that one quotes the name already
				err = fmt.Errorf("%s%s: %w", refusal.Prefix, resource, err)
			}
			return nil, refusal.BadOption(fence.Claim{Resource: resource}, err)
		}
		if other, ok := tokens[resource]; ok && other != token {
			return nil, refusal.BadOption(fence.Claim{Resource: resource, Token: token},
				fmt.Errorf("two tokens for one resource: %s and %s for %q", other, token, resource))
		}
		tokens[resource] = token
		if len(tokens) > refusal.MaxClaims {
			return nil, refusal.BadOption(fence.Claim{}, refusal.ErrTooManyClaims)
		}
	}

	claims := make([]marks.Presented, 0, len(tokens))
	for _, r := range slices.Sorted(maps.Keys(tokens)) {
		claims = append(claims, marks.Presented{Resource: r, Token: tokens[r], Holder: holder})
	}
	return claims, nil
}

// parseOptions returns the settings in the value of the startup parameter "options". It parses as
// the server does: pg_split_opts splits words at white space, and a backslash quotes the next
// character; then getopt reads the server's switches (process_postgres_switches in
// src/backend/tcop/postgres.c). It fails on anything else, because an overlooked setting could be a
// claim, and the session would not be fenced for that resource.
func parseOptions(options string) ([]wire.Param, error) {
	words := pgoptions.Split(options)
	var found []wire.Param
	for i := 0; i < len(words); i++ {
		word := words[i]
		if len(word) < 2 || word[0] != '-' {
			return nil, wire.Violation("options: %.60q is not a switch", word)
		}
		if word == "--" {
			return nil, wire.Violation("options: a bare -- is not a switch")
		}
		for at := 1; at < len(word); at++ {
			letter := word[at]
			if strings.IndexByte(switchesAlone, letter) >= 0 {
				continue
			}
			if strings.IndexByte(switchesWithValue, letter) < 0 {
				return nil, wire.Violation("options: unknown switch -%c", letter)
			}
			value := word[at+1:]
			if value == "" {
				i++
				if i == len(words) {
					return nil, wire.Violation("options: switch -%c needs a value", letter)
				}
				value = words[i]
			}
			if letter == 'c' || letter == '-' {
				name, val, ok := strings.Cut(value, "=")
				if !ok {
					return nil, wire.Violation("options: %.60q needs a value", value)
				}
				found = append(found, wire.Param{Name: name, Value: val})
			}
			break
		}
	}
	return found, nil
}

// The server's getopt string, split into switches without a value, and switches whose value is the
// rest of the word or the next word. The latter include '-', for --name=value.
const (
	switchesAlone     = "bEeFijlnOPsT"
	switchesWithValue = "BcCDdfhkNprStvW-"
)
