package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringfence/ringfence/internal/coordinators"
	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/guard/pgguard"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/settings"
)

// uninstallTimeout bounds guard uninstall in one store.
const uninstallTimeout = time.Minute

func (p *program) uninstallCommand() *cobra.Command {
	o := &p.options
	c := &cobra.Command{
		Use: "uninstall", Args: cobra.NoArgs,
		Short: "List what install has made, or remove it with --yes",
		Long: `List what guard install has made, or remove it with --yes.

Removing the marks lets old leaders write again: stop all leaders and guards first, paused ones too.
The command removes nothing while a session is open, a guard is connected, an election is running or
a table is sealed, and says which. Without flags it is for all databases that have the schema, and
for the elections in Postgres.
`,
		RunE: p.using(p.uninstall, useStores, useRoles, useCoordinator),
	}
	c.Flags().BoolVar(&o.yes, "yes", false, "remove it; without this flag nothing is changed")
	c.Flags().BoolVar(&o.withData, "with-data", false,
		"also remove checkpoints, jobs and other documents")
	o.several(c)
	return c
}

// uninstall says what an installation has made in every store, and removes it if --yes says so. It
// looks at all stores before it changes the first.
func (p *program) uninstall(ctx context.Context, c *config, _ []string) error {
	stores, err := c.removable(ctx, p.options.selection)
	if err != nil {
		return err
	}
	there, blocked := stores[:0:0], false
	for _, s := range stores {
		r, err := p.remove(ctx, s, false)
		if err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
		p.printRemoval(s, r)
		if !r.Nothing() {
			there = append(there, s)
		}
		blocked = blocked || len(r.Blocked) > 0
	}
	if of := c.Coordinator.Scheme(); of != "" && coordinators.Installers[of].Install == nil {
		fmt.Fprintf(p.Stdout, "coordinator\n  stays    elections and documents in %s: remove them with "+
			"its own tools\n", of)
	}
	switch {
	case blocked:
		return errors.New("nothing was changed: see what is blocked above")
	case len(there) == 0:
		fmt.Fprintln(p.Stdout, "nothing is installed")
		return nil
	case !p.options.yes:
		fmt.Fprintln(p.Stdout, "nothing was changed; add --yes to remove this. Stop every guard and "+
			"every leader first, paused ones too: the highest tokens are forgotten")
		return nil
	}
	for i, s := range there {
		r, err := p.remove(ctx, s, true)
		if err == nil && len(r.Blocked) > 0 {
			err = fmt.Errorf("nothing was changed: %s", r.Blocked[0])
		}
		if err != nil {
			return fmt.Errorf("%s: %w; stores removed before: %d of %d", s, err, i, len(there))
		}
		fmt.Fprintf(p.Stdout, "%s: removed\n", s)
	}
	return nil
}

func (p *program) remove(ctx context.Context, s server, drop bool) (marks.Removal, error) {
	ctx, cancel := context.WithTimeout(ctx, uninstallTimeout)
	defer cancel()
	return s.Uninstall(ctx, marks.Removing{Drop: drop, WithData: p.options.withData})
}

func (p *program) printRemoval(s server, r marks.Removal) {
	fmt.Fprintln(p.Stdout, s)
	for _, part := range []struct {
		name  string
		texts []string
	}{{"drops", r.Drops}, {"data", r.Data}, {"blocked", r.Blocked}, {"stays", r.Stays}} {
		for _, text := range part.texts {
			fmt.Fprintf(p.Stdout, "  %-8s %s\n", part.name, text)
		}
	}
	if r.Nothing() {
		fmt.Fprintln(p.Stdout, "  nothing of ringfence is here")
	}
}

// removable returns the stores that uninstall is for. Without flags they are all databases that
// have something, and the database of a coordinator that is none of them.
func (c *config) removable(ctx context.Context, o selection) ([]server, error) {
	all, err := c.targets(ctx, o, guard.Databases.Installed)
	if err != nil || o.all || o.databases != "" {
		return all, err
	}
	for _, s := range slices.Clone(all) {
		all = append(all, s.others(ctx, all)...)
	}
	url := c.Coordinator.Reveal()
	if _, has := coordinators.Installers[c.Coordinator.Scheme()]; has && o.server == "" &&
		postgresAt(all, url) == nil {
		all = append(all,
			server{&pgguard.Settings{Endpoints: guard.Endpoints{Upstream: settings.URL(url)}}, "coordinator",
				""})
	}
	return all, nil
}
