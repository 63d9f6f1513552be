package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/ringfence/ringfence/cmd/guard/internal/seal"
	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/internal/guard/pgguard"
	"github.com/ringfence/ringfence/internal/marks/pgmarks"
)

// check reports how a write could reach the database past guard and seals. Its exit code is
// cli.Uncovered if it has found something that --accept does not name.
func (p *program) check(ctx context.Context, c *config, a cli.Arguments) error {
	ctx, cancel := context.WithTimeout(ctx, sealTimeout)
	defer cancel()
	server, err := c.onePostgres(p.options.selection)
	if err != nil {
		return err
	}
	schemas, err := list(p.options.schemas)
	if err != nil {
		return err
	}
	accepted, err := list(p.options.accept)
	if err != nil {
		return err
	}
	r, err := inspect(ctx, server, schemas)
	if err != nil {
		return err
	}
	for _, unused := range r.Accept(accepted) {
		fmt.Fprintf(p.Stderr, "guard: --accept %s fits no finding\n", unused)
	}
	if a.Output == "json" {
		err = p.printJSON(r)
	} else {
		err = printReport(p.Stdout, r)
	}
	if err == nil && r.Open() > 0 {
		return cli.Exit(cli.Uncovered)
	}
	return err
}

// inspect checks the way of the guard's role to the server, and as the administrator all the rest.
func inspect(ctx context.Context, s *pgguard.Settings, schemas []string) (*seal.Report, error) {
	admin, err := pgmarks.Connect(ctx, s.AdminURL())
	if err != nil {
		return nil, err
	}
	defer admin.Close(context.WithoutCancel(ctx))
	guard, err := pgmarks.Connect(ctx, s.URL().Reveal())
	if err != nil {
		return nil, fmt.Errorf("GUARD_POSTGRES_UPSTREAM: %w", err)
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

// printReport prints a report for people. Whoever creates a table chooses its name, and must not
// add findings or lines to the report with it.
func printReport(w io.Writer, r *seal.Report) error {
	var b strings.Builder
	if len(r.Schemas) == 0 {
		fmt.Fprintf(&b, "database %s; nothing else was checked\n", cli.PrintableText(r.Database))
	} else {
		fmt.Fprintf(&b, "database %s; sealed tables: %d; checked schemas: %s\n",
			cli.PrintableText(r.Database),
			r.Sealed, cli.PrintableText(strings.Join(r.Schemas, ", ")))
	}
	for _, f := range r.Findings {
		id := f.ID
		if f.Accepted {
			id += " (accepted)"
		}
		fmt.Fprintf(&b, "\n%s  %s\n  what  %s\n  why   %s\n  do    %s\n", id, cli.PrintableText(f.Object),
			cli.PrintableText(f.What), f.Why, cli.PrintableText(f.Do))
	}
	fmt.Fprintf(&b, "\nfindings: %d, accepted: %d\n", len(r.Findings), len(r.Findings)-r.Open())
	_, err := io.WriteString(w, b.String())
	return err
}
