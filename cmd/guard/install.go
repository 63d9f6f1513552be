package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/coordinators"
	pgstore "github.com/ringfence/ringfence/internal/marks/postgres"
)

// install prepares the stores, or prints the commands that would.
func (p *program) install(ctx context.Context, c *config, o options) error {
	all, err := c.targets(ctx, o.place)
	if err != nil {
		return err
	}
	for _, t := range all {
		if o.printOnly {
			text, err := t.script(t.config)
			if err != nil {
				return fmt.Errorf("%s: %w", t.name, err)
			}
			if t.database != "" && (len(all) > 1 || o.place.databases != "") {
				fmt.Fprintf(p.Stdout, "-- %s\n\\connect %s\n", t, pgx.Identifier{t.database}.Sanitize())
			}
			fmt.Fprint(p.Stdout, text)
			continue
		}
		if err := t.install(ctx, t.config); err != nil {
			return fmt.Errorf("%s: %w", t, err)
		}
		fmt.Fprintf(p.Stdout, "%s: installed\n", name(t, len(all)))
	}
	return p.installCoordinator(ctx, c, o, all)
}

// installCoordinator prepares a coordinator that has a schema. In a guarded database it is prepared
// for the guard's role, the role of GUARD_COORDINATOR and GUARD_POSTGRES_LEADERS. Elsewhere the role
// of GUARD_COORDINATOR prepares it for itself, unless the operator has named other databases.
func (p *program) installCoordinator(ctx context.Context, c *config, o options, stores []target) error {
	installer, ok := coordinators.Installers[c.Coordinator.Scheme()]
	if !ok {
		return nil
	}
	url, roles := c.Coordinator.Reveal(), []string(nil)
	if i := slices.IndexFunc(stores, func(t target) bool { return t.is(url) }); i >= 0 {
		of := stores[i].config
		for _, each := range []string{url, of.PostgresUpstream.Reveal()} {
			role, err := pgstore.Role(each)
			if err != nil {
				return fmt.Errorf("coordinator: %w", err)
			}
			roles = append(roles, role)
		}
		roles = append(roles, of.PostgresLeaders...)
		slices.Sort(roles)
		url, roles = of.PostgresAdmin.Reveal(), slices.Compact(roles)
	} else if o.place.databases != "" {
		return nil
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

// is reports whether a URL leads to the target.
func (t target) is(url string) bool {
	return t.database != "" && pgstore.Address(url) == pgstore.Address(t.config.PostgresUpstream.Reveal())
}
