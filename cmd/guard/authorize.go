package main

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/marks"
)

// authorizeTimeout bounds allow, forbid and authorize.
const authorizeTimeout = 30 * time.Second

func (p *program) allowCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "allow [flags] [ROLE RESOURCE…]",
		Args: fits(func(names []string) bool { return len(names) != 1 },
			"a role and its resources, or nothing to list what is allowed"),
		Short: "Let a role claim resources, or list what is allowed",
		Long: `Let a role claim resources, or list what is allowed. Resources may be patterns such as 'orders_*'.
ROLE is ` + roles() + `.
`,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              p.using(p.allow, useStores),
	}
	cli.Output(c, &p.options.output, "table", "json")
	p.options.several(c)
	return c
}

func (p *program) forbidCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "forbid [flags] ROLE [RESOURCE…]",
		Args: fits(func(names []string) bool { return len(names) > 0 },
			"a role, and the resources or patterns to take back (all, if none is named)"),
		Short:             "Take back what allow gave: these resources or patterns, or all of the role",
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              p.using(p.forbid, useStores),
	}
	p.options.several(c)
	return c
}

func (p *program) authorizeCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "authorize [flags] on|off", ValidArgs: []string{"on", "off"},
		Args:  cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		Short: "Restrict claims to the roles of guard allow, or not",
		Long: `Restrict claims to the roles of guard allow, or not. on: only roles that guard allow has listed may
claim. off: any role may. It ends no session.
`,
		RunE: p.using(p.authorize, useStores),
	}
	c.Flags().BoolVar(&p.options.force, "force", false,
		"also if sessions are admitted now that would be refused")
	p.options.several(c)
	return c
}

// allow lets a role claim resources, or prints what is allowed.
func (p *program) allow(ctx context.Context, c *config, args []string) error {
	if len(args) == 0 {
		return p.printAllowed(ctx, c)
	}
	role, patterns, err := grantee(args)
	if err != nil {
		return err
	}
	return p.eachStore(ctx, c, func(ctx context.Context, store string, s guard.Authorizer) error {
		if err := s.Allow(ctx, role, patterns...); err != nil {
			return err
		}
		fmt.Fprintf(p.Stdout, "%s: %s may claim %s\n", store, role, strings.Join(args[1:], ", "))
		return nil
	})
}

// forbid takes back what allow gave.
func (p *program) forbid(ctx context.Context, c *config, args []string) error {
	role, patterns, err := grantee(args)
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
func (p *program) authorize(ctx context.Context, c *config, args []string) error {
	on := args[0] == "on"
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
		fmt.Fprintf(p.Stdout, "%s: authorization is %s\n", store, args[0])
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

func (p *program) printAllowed(ctx context.Context, c *config) error {
	all := []storeAuthorization{}
	err := p.eachStore(ctx, c, func(ctx context.Context, store string, s guard.Authorizer) error {
		read, err := s.Authorization(ctx)
		all = append(all, storeAuthorization{store, read})
		return err
	})
	if err != nil {
		return err
	}
	if p.options.output == "json" {
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
