// Package environ is about the environment of a command, and how that hands it the claim of a term:
// LEADER_EXPORT.
//
//	claims, err := setting.Claims(stores, carry.Carries)
//	child.Env, err = claims.Environ(ctx, os.Environ(), term.Claim())
//
// PGOPTIONS fences every program on libpq without a change, and reaches each database to which the
// command connects. DATABASE_URL reaches only what the program opens with it: use it where a
// command has several databases, one of them behind a pooler that refuses the setting.
package environ

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks/pgmarks"
	"github.com/ringfence/ringfence/internal/network/password"
	"github.com/ringfence/ringfence/internal/postgres/pglogin"
	"github.com/ringfence/ringfence/internal/refusal"
	"github.com/ringfence/ringfence/internal/settings"
)

// Setting is the value of LEADER_EXPORT: the variables that carry the claim, or none. nil is the
// default.
type Setting []string

// The variables. RINGFENCE_TOKEN stands for RINGFENCE_RESOURCE and RINGFENCE_HOLDER, too.
const (
	tokenVariable   = "RINGFENCE_TOKEN"
	optionsVariable = "PGOPTIONS"
	urlVariable     = "DATABASE_URL"
	none            = "none"
)

var known = []string{tokenVariable, optionsVariable, urlVariable}

// UnmarshalText parses the value.
func (s *Setting) UnmarshalText(text []byte) error {
	*s = Setting{}
	if string(text) == none {
		return nil
	}
	for entry := range strings.SplitSeq(string(text), ",") {
		entry = strings.TrimSpace(entry)
		if !slices.Contains(known, entry) {
			return fmt.Errorf("%q is none of %s, %s", entry, strings.Join(known, ", "), none)
		}
		*s = append(*s, entry)
	}
	return nil
}

// Claims is what is exported.
type Claims struct {
	variables []string
	store     settings.URL // behind DATABASE_URL
}

// Claims returns what is exported for these stores, of which some are carried: those need no claim.
// If nothing is set, that is RINGFENCE_TOKEN for the others, and PGOPTIONS if one of them is a
// Postgres. If no store is listed, it is both, since the command may use any.
func (s Setting) Claims(stores settings.URLs, carried func(settings.URL) bool) (Claims, error) {
	others := slices.DeleteFunc(slices.Clone(stores), carried)
	databases := slices.DeleteFunc(slices.Clone(others), func(u settings.URL) bool {
		return u.Scheme() != "postgres" && u.Scheme() != "postgresql"
	})
	switch {
	case s != nil:
	case len(stores) == 0, len(databases) > 0:
		s = Setting{tokenVariable, optionsVariable}
	case len(others) > 0:
		s = Setting{tokenVariable}
	}
	if !slices.Contains(s, urlVariable) {
		return Claims{variables: s}, nil
	}
	if len(databases) != 1 {
		return Claims{}, fmt.Errorf("LEADER_EXPORT: %s: LEADER_STORES must have one postgres:// that "+
			"LEADER_CARRY does not carry, and has %d", urlVariable, len(databases))
	}
	return Claims{s, databases[0]}, nil
}

// Environ returns the environment of a command with the claim. It keeps the claims of an outer
// leader for other resources in PGOPTIONS, since a session may be fenced for several.
func (e Claims) Environ(ctx context.Context, environ []string, c fence.Claim) ([]string, error) {
	environ = Without(environ, "RINGFENCE_RESOURCE", tokenVariable, "RINGFENCE_HOLDER")
	before := settings.Lookup(environ, optionsVariable)
	options := refusal.Unclaimed(before, func(resource string) bool {
		return resource == string(c.Resource)
	})
	if slices.Contains(e.variables, optionsVariable) {
		options = refusal.StartupOption(options, c)
	}
	if options != before {
		environ = With(environ, [][2]string{{optionsVariable, options}})
	}
	if slices.Contains(e.variables, tokenVariable) {
		environ = With(environ, [][2]string{
			{"RINGFENCE_RESOURCE", string(c.Resource)}, {tokenVariable, c.Token.String()},
			{"RINGFENCE_HOLDER", c.Holder},
		})
	}
	if e.store != "" {
		u, err := fenced(ctx, e.store, c)
		if err != nil {
			return nil,
				fmt.Errorf("LEADER_EXPORT: %s: %w", urlVariable, errors.New(e.store.Scrub(err.Error())))
		}
		environ = With(environ, [][2]string{{urlVariable, u}})
	}
	return environ, nil
}

// fenced returns the URL of a store with its present password and the claim.
func fenced(ctx context.Context, store settings.URL, c fence.Claim) (string, error) {
	u, err := pglogin.Parse(store.Reveal())
	if err != nil {
		return "", err
	}
	q, err := pglogin.Options(u.RawQuery)
	if err != nil {
		return "", err
	}
	if q.Has(password.FileOption) || q.Has(password.CommandOption) {
		present, err := pgmarks.Password(ctx, store.Reveal())
		if err != nil {
			return "", err
		}
		u.User = url.UserPassword(u.User.Username(), present)
		q.Del(password.FileOption)
		q.Del(password.CommandOption)
	}
	q.Set("options", refusal.StartupOption(q.Get("options"), c))
	u.RawQuery = pglogin.Query(q)
	return u.String(), nil
}

// With returns the environment with these variables, which replace those of the same name.
func With(environ []string, own [][2]string) []string {
	for _, v := range own {
		environ = append(Without(environ, v[0]), v[0]+"="+v[1])
	}
	return environ
}

// Without returns the environment without the variables of these names.
func Without(environ []string, names ...string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains(names, name)
	})
}
