package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ringfence/ringfence/cmd/guard/internal/seal"
	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/guard/pgguard"
	"github.com/ringfence/ringfence/internal/marks/pgmarks"
)

func (p *program) checkCommand() *cobra.Command {
	o := &p.options
	c := &cobra.Command{
		Use: "check", Args: cobra.NoArgs,
		Short: "Report how writes could reach Postgres past the guard and the seals",
		Long: `Report how writes could reach the databases of Postgres past the guard and the seals. The exit code is
4 if there is a way in one of them that --accept does not name, 0 if not.
`,
		RunE: p.using(p.check, useStores),
	}
	cli.Output(c, &o.output, "table", "json")
	c.Flags().StringVar(&o.accept, "accept", "", "`FINDINGS` that are known and fine: "+
		"ID or ID:OBJECT, separated by commas")
	o.several(c)
	o.inSchemas(c, " (default: those with sealed tables)")
	return c
}

// checked is the report on one database.
type checked struct {
	Store string `json:"store"`
	*seal.Report
}

// check reports how a write could reach the databases past guard and seals. Its exit code is
// cli.Uncovered if it has found something that --accept does not name. A database that cannot be
// checked does not keep the others from being checked.
func (p *program) check(ctx context.Context, c *config, _ []string) error {
	schemas, err := list(p.options.schemas)
	if err != nil {
		return err
	}
	accepted, err := list(p.options.accept)
	if err != nil {
		return err
	}
	targets, err := c.targets(ctx, p.options.selection, guard.Databases.Installed)
	targets = only[*pgguard.Settings](targets)
	switch {
	case len(targets) == 0 && err != nil:
		return err
	case len(targets) == 0:
		return errNoTables
	}
	failed := []error{err}
	all := []checked{}
	for _, t := range targets {
		r, err := inspect(ctx, t, schemas)
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", t, err))
			continue
		}
		all = append(all, checked{t.name(), r})
	}
	return p.report(all, accepted, errors.Join(failed...))
}

// report prints the reports. failed says what could not be checked.
func (p *program) report(all []checked, accepted []string, failed error) (err error) {
	unused, open := slices.Clone(accepted), 0
	for _, r := range all {
		fitsNone := r.Accept(accepted)
		unused = slices.DeleteFunc(unused, func(entry string) bool {
			return !slices.Contains(fitsNone, entry)
		})
		open += r.Open()
	}
	for _, entry := range unused {
		fmt.Fprintf(p.Stderr, "guard: --accept %s fits no finding\n", entry)
	}
	if p.options.output == "json" {
		err = p.printJSON(all)
	} else {
		err = printReports(p.Stdout, all)
	}
	if err = errors.Join(failed, err); err == nil && open > 0 {
		return cli.Exit(cli.Uncovered)
	}
	return err
}

// inspect checks the way of the guard's role to a database, and as the administrator all the rest.
func inspect(ctx context.Context, t server, schemas []string) (*seal.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, sealTimeout)
	defer cancel()
	s := t.Upstream.(*pgguard.Settings)
	admin, err := pgmarks.Connect(ctx, s.AdminURL())
	if err != nil {
		return nil, err
	}
	defer admin.Close(context.WithoutCancel(ctx))
	guard, err := pgmarks.Connect(ctx, s.URL().Reveal())
	if err != nil {
		return nil, fmt.Errorf("%sUPSTREAM: %w", t.prefix(), err)
	}
	defer guard.Close(context.WithoutCancel(ctx))
	pooled, err := seal.Pooler(ctx, guard)
	if err == nil && pooled == nil {
		pooled, err = seal.Pooler(ctx, admin)
	}
	if err != nil {
		return nil, err
	}
	if pooled != nil {
		return &seal.Report{
			Database: admin.Config().Database, Schemas: []string{}, Findings: pooled,
		}, nil
	}
	return seal.Check(ctx, admin, s.Guard(), schemas...)
}

// printReports prints reports for people, each finding below the line of its database. Whoever
// creates a table chooses its name, and must not add findings or lines to the report with it.
func printReports(w io.Writer, all []checked) error {
	var b strings.Builder
	findings, open := 0, 0
	for _, r := range all {
		findings, open = findings+len(r.Findings), open+r.Open()
		fmt.Fprintf(&b, "%s, database %s; ", r.Store, cli.PrintableText(r.Database))
		if len(r.Schemas) == 0 {
			b.WriteString("nothing else was checked\n\n")
		} else {
			fmt.Fprintf(&b, "sealed tables: %d; checked schemas: %s\n\n", r.Sealed,
				cli.PrintableText(strings.Join(r.Schemas, ", ")))
		}
		for _, f := range r.Findings {
			id := f.ID
			if f.Accepted {
				id += " (accepted)"
			}
			fmt.Fprintf(&b, "%s  %s\n  what  %s\n  why   %s\n  do    %s\n\n", id,
				cli.PrintableText(f.Object), cli.PrintableText(f.What), f.Why, cli.PrintableText(f.Do))
		}
	}
	fmt.Fprintf(&b, "findings: %d, accepted: %d\n", findings, findings-open)
	_, err := io.WriteString(w, b.String())
	return err
}
