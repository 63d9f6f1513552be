package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/ringfence/ringfence/internal/coordinators"
	pgstore "github.com/ringfence/ringfence/internal/marks/postgres"
)

// install prepares every configured store, or prints the commands that would.
func (p *program) install(ctx context.Context, c *config, o options) error {
	for _, proto := range c.configured() {
		if o.printOnly {
			text, err := proto.script(c)
			if err != nil {
				return fmt.Errorf("%s: %w", proto.name, err)
			}
			fmt.Fprint(p.Stdout, text)
			continue
		}
		if err := proto.install(ctx, c); err != nil {
			return fmt.Errorf("%s: %w", proto.name, err)
		}
		fmt.Fprintf(p.Stdout, "%s: installed\n", proto.name)
	}
	return p.installCoordinator(ctx, c, o)
}

// installCoordinator prepares a coordinator that has a schema. In the guarded database it is prepared
// for the guard's role, the role of GUARD_COORDINATOR and GUARD_POSTGRES_LEADERS. Elsewhere the role
// of GUARD_COORDINATOR prepares it for itself.
func (p *program) installCoordinator(ctx context.Context, c *config, o options) error {
	installer, ok := coordinators.Installers[c.Coordinator.Scheme()]
	if !ok {
		return nil
	}
	url, roles := c.Coordinator.Reveal(), []string(nil)
	if pgstore.Address(url) == pgstore.Address(c.PostgresUpstream.Reveal()) {
		for _, each := range []string{url, c.PostgresUpstream.Reveal()} {
			role, err := pgstore.Role(each)
			if err != nil {
				return fmt.Errorf("coordinator: %w", err)
			}
			roles = append(roles, role)
		}
		roles = append(roles, c.PostgresLeaders...)
		slices.Sort(roles)
		url, roles = c.PostgresAdmin.Reveal(), slices.Compact(roles)
	}
	if o.printOnly {
		fmt.Fprint(p.Stdout, installer.Script(roles...))
		return nil
	}
	if err := installer.Install(ctx, url, roles...); err != nil {
		return fmt.Errorf("coordinator: %s", c.Coordinator.Scrub(err.Error()))
	}
	fmt.Fprintln(p.Stdout, "coordinator: installed")
	return nil
}
