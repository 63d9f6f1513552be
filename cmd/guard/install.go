package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/ringfence/ringfence/internal/coordinators"
	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/guard/pgguard"
	"github.com/ringfence/ringfence/internal/marks/pgmarks"
)

func (p *program) installCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "install", Args: cobra.NoArgs,
		Short: "Create or upgrade the schema in every store",
		Long: `Create or upgrade the schema in every store. It may be repeated: it changes no mark.
`,
		RunE: p.using(p.install, useStores, useRoles, useCoordinator),
	}
	p.options.print(c)
	p.options.several(c)
	return c
}

// install prepares the stores, or prints the commands that would. A store that fails does not keep
// the others from being prepared; the last lines say which have failed.
func (p *program) install(ctx context.Context, c *config, _ []string) error {
	all, err := c.targets(ctx, p.options.selection, guard.Databases.All)
	if len(all) == 0 && err != nil {
		return err
	}
	failed := []error{err}
	here, err := withCoordinator(c, all)
	failed = append(failed, err)
	for _, t := range all {
		prepare := p.installIn
		if p.options.printOnly {
			prepare = p.printInstall
		}
		if err := prepare(ctx, t, len(all)); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", t, err))
		}
	}
	if !here && p.options.databases == "" {
		failed = append(failed, p.installCoordinator(ctx, c))
	}
	return errors.Join(failed...)
}

// installIn prepares one of so many stores.
func (p *program) installIn(ctx context.Context, t server, stores int) error {
	var warnings []string
	did, err := compared(ctx, t.Image, func() (err error) {
		warnings, err = t.Install(ctx)
		return err
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(p.Stdout, "%s: %s\n", t.among(stores), did)
	for _, w := range warnings {
		fmt.Fprintf(p.Stderr, "guard: %s: %s\n", t.among(stores), w)
	}
	return p.installFunctions(ctx, t, stores)
}

// compared installs, and says what that did by what was there before and after. If there is no
// image before, the installation says why, and better.
func compared(
	ctx context.Context, image func(context.Context) (string, error), install func() error,
) (did string, err error) {
	before, _ := image(ctx)
	if err := install(); err != nil {
		return "", err
	}
	if after, err := image(ctx); err == nil && after == before {
		return "was installed, nothing to change", nil
	}
	return "installed", nil
}

// printInstall prints what installIn would send, for psql or redis-cli.
func (p *program) printInstall(_ context.Context, t server, stores int) error {
	text, err := t.Script()
	if err != nil {
		return err
	}
	if name := t.Database(); name != "" && (stores > 1 || p.options.databases != "") {
		if strings.ContainsAny(name, "\r\n") {
			return errors.New("psql cannot connect to a database with a line break in its name: run guard " +
				"install")
		}
		fmt.Fprintf(p.Stdout, "-- %s\n\\connect -reuse-previous=on %s\n", t,
			pgx.Identifier{conninfo(name)}.Sanitize())
	}
	fmt.Fprint(p.Stdout, text)
	return nil
}

// conninfo names a database so that psql does not take the name for a URL.
func conninfo(database string) string {
	return "dbname='" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(database) + "'"
}

// functional is a store that has functions for programs in other languages beside what guards need.
type functional interface {
	InstallFunctions(ctx context.Context) (missing string, err error)
}

// installFunctions loads the functions of a store that has some. A guard does without them, so it
// is no error if the server does not have or allow them.
func (p *program) installFunctions(ctx context.Context, t server, stores int) error {
	f, ok := t.Upstream.(functional)
	if !ok {
		return nil
	}
	missing, err := f.InstallFunctions(ctx)
	if err != nil {
		return err
	}
	if missing != "" {
		fmt.Fprintf(p.Stdout, "%s: without functions: %s\n", t.among(stores), missing)
	}
	return nil
}

// withCoordinator has the role of GUARD_COORDINATOR take part in elections in the store that has
// the coordinator beside the marks. The guard's role may, anyway. here reports whether there is
// such a store.
func withCoordinator(c *config, stores []server) (here bool, err error) {
	if _, ok := coordinators.Installers[c.Coordinator.Scheme()]; !ok {
		return false, nil
	}
	of := postgresAt(stores, c.Coordinator.Reveal())
	if of == nil {
		return false, nil
	}
	role, err := pgmarks.Role(c.Coordinator.Reveal())
	if err != nil {
		return true, fmt.Errorf("coordinator: %w", err)
	}
	if guard, _ := pgmarks.Role(of.URL().Reveal()); role != guard &&
		!slices.Contains(of.Leaders, role) {
		of.Leaders = append(of.Leaders, role)
	}
	return true, nil
}

// installCoordinator prepares a coordinator that has a schema, for its own role.
func (p *program) installCoordinator(ctx context.Context, c *config) error {
	installer, ok := coordinators.Installers[c.Coordinator.Scheme()]
	if !ok {
		return nil
	}
	url := c.Coordinator.Reveal()
	if p.options.printOnly {
		fmt.Fprint(p.Stdout, installer.Script())
		return nil
	}
	did, err := compared(ctx, func(ctx context.Context) (string, error) {
		return pgmarks.Image(ctx, url)
	},
		func() error { return installer.Install(ctx, url) })
	if err != nil {
		return fmt.Errorf("coordinator: %s", c.Coordinator.Scrub(err.Error()))
	}
	fmt.Fprintln(p.Stdout, "coordinator: "+did)
	return nil
}

// postgresAt returns the settings of the store to which a URL leads, or nil.
func postgresAt(stores []server, url string) *pgguard.Settings {
	for _, s := range stores {
		pg, ok := s.Upstream.(*pgguard.Settings)
		database, err := pgmarks.DatabaseOf(url)
		if ok && err == nil && pg.Database() == database &&
			pgmarks.Address(url) == pgmarks.Address(pg.URL().Reveal()) {
			return pg
		}
	}
	return nil
}
