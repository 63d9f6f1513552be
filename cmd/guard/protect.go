package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/ringfence/ringfence/cmd/guard/internal/seal"
	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks/pgmarks"
)

// sealTimeout bounds protect, unprotect and check. A table that is in use is waited for, up to the
// lock timeout of the plan.
const sealTimeout = time.Minute

func (p *program) protectCommand() *cobra.Command {
	o := &p.options
	c := &cobra.Command{
		Use: "protect [flags] [TABLE…]", Args: p.someTable,
		Short: "Seal tables of Postgres",
		Long: `Seal tables of Postgres, with their partitions and children. They then take writes only under the mark
of the resource, also from clients that go round the guard.
`,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              p.using(p.protect, useStores, useResources),
	}
	c.Flags().StringVar(&o.resource, "resource", "", "the `RESOURCE` under whose mark the tables "+
		"take writes (default: that of GUARD_RESOURCES, if it names one)")
	o.print(c)
	o.single(c)
	o.inSchemas(c, "")
	return c
}

func (p *program) unprotectCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "unprotect [flags] [TABLE…]", Args: p.someTable,
		Short:             "Take the seals off tables",
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              p.using(p.unprotect, useStores),
	}
	p.options.print(c)
	p.options.single(c)
	p.options.inSchemas(c, "")
	return c
}

// protect seals tables, so that they take writes only under the mark of a resource.
func (p *program) protect(ctx context.Context, c *config, args []string) error {
	resource, err := c.sealedFor(p.options.resource)
	if err != nil {
		return err
	}
	r := seal.Request{Resource: resource, Tables: args}
	return p.carryOut(ctx, c, seal.Protect, r, "sealed for "+string(resource))
}

// unprotect takes the seals off tables.
func (p *program) unprotect(ctx context.Context, c *config, args []string) error {
	return p.carryOut(ctx, c, seal.Unprotect, seal.Request{Tables: args}, "no longer sealed")
}

// planner is seal.Protect or seal.Unprotect.
type planner func(context.Context, *pgx.Conn, seal.Request) (*seal.Plan, error)

// carryOut runs or prints a plan, also for the schemas of --schema.
func (p *program) carryOut(
	ctx context.Context, c *config, plan planner, r seal.Request, done string,
) error {
	ctx, cancel := context.WithTimeout(ctx, sealTimeout)
	defer cancel()
	server, err := c.onePostgres(p.options.selection)
	if err != nil {
		return err
	}
	if r.Schemas, err = list(p.options.schemas); err != nil {
		return err
	}
	conn, err := pgmarks.Connect(ctx, server.AdminURL())
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	todo, err := plan(ctx, conn, r)
	if err != nil {
		return err
	}
	if p.options.printOnly {
		fmt.Fprint(p.Stdout, todo.SQL())
		return nil
	}
	if err := todo.Run(ctx, conn); err != nil {
		return err
	}
	for _, t := range todo.Tables {
		said := done
		if slices.Contains(todo.Bare, t) {
			said = "was not sealed"
		}
		fmt.Fprintf(p.Stdout, "%s: %s\n", cli.PrintableText(t), said)
	}
	return nil
}

// sealedFor returns the resource of --resource, or the only one in GUARD_RESOURCES.
func (c *config) sealedFor(name string) (fence.Resource, error) {
	if name == "" && len(c.Resources) == 1 {
		name = c.Resources[0]
	}
	if name == "" {
		return "", cli.Mistake("--resource is missing, and GUARD_RESOURCES does not name just one")
	}
	r, err := fence.ParseResource(name)
	if err != nil {
		return "", cli.Mistake(err.Error())
	}
	return r, nil
}

// someTable checks the arguments of protect and unprotect.
func (p *program) someTable(_ *cobra.Command, args []string) error {
	if len(args) == 0 && p.options.schemas == "" {
		return fmt.Errorf("name a table, or a schema with --schema")
	}
	return nil
}
