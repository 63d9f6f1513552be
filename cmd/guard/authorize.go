package main

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/marks"
)

// authorizeTimeout bounds allow, forbid and authorize.
const authorizeTimeout = 30 * time.Second

// allow lets a role claim resources, or prints what is allowed.
func (p *program) allow(ctx context.Context, c *config, a cli.Arguments) error {
	if len(a.Names) == 0 {
		return p.printAllowed(ctx, c, a)
	}
	role, patterns, err := grantee(a.Names)
	if err != nil {
		return err
	}
	return p.eachStore(ctx, c, func(ctx context.Context, store string, s guard.Authorizer) error {
		if err := s.Allow(ctx, role, patterns...); err != nil {
			return err
		}
		fmt.Fprintf(p.Stdout, "%s: %s may claim %s\n", store, role, strings.Join(a.Names[1:], ", "))
		return nil
	})
}

// forbid takes back what allow gave.
func (p *program) forbid(ctx context.Context, c *config, a cli.Arguments) error {
	role, patterns, err := grantee(a.Names)
	if err != nil {
		return err
	}
	return p.eachStore(ctx, c, func(ctx context.Context, store string, s guard.Authorizer) error {
		n, err := s.Forbid(ctx, role, patterns...)
		if err != nil {
			return err
		}
		fmt.Fprintf(p.Stdout, "%s: removed %d of %s; sessions that are admitted go on until they end\n",
			store, n, role)
		return nil
	})
}

// authorize switches authorization on or off. It does not switch it on while sessions are admitted
// that it would refuse, unless --force says so.
func (p *program) authorize(ctx context.Context, c *config, a cli.Arguments) error {
	on := a.Names[0] == "on"
	strangers := 0
	err := p.eachStore(ctx, c, func(ctx context.Context, store string, s guard.Authorizer) error {
		if !on {
			return nil
		}
		all, err := s.Authorization(ctx)
		for _, other := range all.Strangers {
			fmt.Fprintf(p.Stdout, "%s: %s would be refused\n", store, other)
		}
		strangers += len(all.Strangers)
		return err
	})
	switch {
	case err != nil:
		return err
	case strangers > 0 && !p.options.force:
		return fmt.Errorf("nothing was changed: authorization would refuse %d sessions that are "+
			"admitted now, if they came again: allow their roles first (guard allow ROLE RESOURCE), or "+
			"use --force", strangers)
	}
	return p.eachStore(ctx, c, func(ctx context.Context, store string, s guard.Authorizer) error {
		if err := s.Authorize(ctx, on); err != nil {
			return err
		}
		fmt.Fprintf(p.Stdout, "%s: authorization is %s\n", store, a.Names[0])
		return nil
	})
}

// eachStore opens all stores of the command before it calls do with the first.
func (p *program) eachStore(
	ctx context.Context, c *config,
	do func(ctx context.Context, store string, s guard.Authorizer) error,
) error {
	ctx, cancel := context.WithTimeout(ctx, authorizeTimeout)
	defer cancel()
	targets, err := c.targets(ctx, p.options.selection, guard.Databases.Installed)
	if err != nil {
		return err
	}
	var open []guard.Authorizer
	for _, t := range targets {
		s, err := t.OpenAuthorizer(ctx, c.common())
		if err != nil {
			return fmt.Errorf("nothing was changed: %s: %w", t, err)
		}
		defer s.Close()
		open = append(open, s)
	}
	for i, s := range open {
		store := targets[i].among(len(targets))
		if err := do(ctx, store, s); err != nil {
			return fmt.Errorf("%s: %w", store, err)
		}
	}
	return nil
}

// storeAuthorization is who may claim what in one store.
type storeAuthorization struct {
	Store string `json:"store"`
	marks.Authorization
}

func (p *program) printAllowed(ctx context.Context, c *config, a cli.Arguments) error {
	all := []storeAuthorization{}
	err := p.eachStore(ctx, c, func(ctx context.Context, store string, s guard.Authorizer) error {
		read, err := s.Authorization(ctx)
		all = append(all, storeAuthorization{store, read})
		return err
	})
	if err != nil {
		return err
	}
	if a.Output == "json" {
		return p.printJSON(all)
	}
	w := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "STORE\tROLE\tMAY CLAIM\tCOUNTS")
	for _, s := range all {
		for _, row := range s.Allowed {
			counts := "yes"
			if row.Why != "" {
				counts = "no: " + row.Why
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", s.Store, row.Role, row.Pattern, counts)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, s := range all {
		state := "off: every role that may log in may claim every resource"
		if s.On {
			state = "on"
		}
		fmt.Fprintf(p.Stdout, "%s: authorization is %s\n", s.Store, state)
		for _, other := range s.Strangers {
			fmt.Fprintf(p.Stdout, "%s: %s is not allowed\n", s.Store, other)
		}
	}
	return nil
}

// grantee reads the arguments of allow and forbid.
func grantee(names []string) (role string, patterns []marks.Pattern, err error) {
	for _, name := range names[1:] {
		p, err := marks.ParsePattern(name)
		if err != nil {
			return "", nil, cli.Mistake(err.Error())
		}
		patterns = append(patterns, p)
	}
	return names[0], patterns, nil
}
