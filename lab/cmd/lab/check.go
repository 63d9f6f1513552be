package main

import (
	"context"
	"flag"
	"fmt"
	"path/filepath"

	"github.com/ringfence/ringfence/lab/check"
	"github.com/ringfence/ringfence/lab/report"
)

// check judges a history that was recorded before, and writes nothing.
func (p program) check(ctx context.Context, args []string) (int, error) {
	flags := flag.NewFlagSet("check", flag.ContinueOnError)
	as := format(flags)
	file, err := p.oneFile(flags, args)
	if err != nil {
		return exitUnknown, err
	}
	events, err := read(file)
	if err != nil {
		return exitUnknown, err
	}
	r := check.Check(ctx, events)
	if *as == "json" {
		return r.Verdict.ExitCode(), p.json(r)
	}
	report.Summary(p.stdout, r)
	return r.Verdict.ExitCode(), nil
}

// report judges a history and writes the report beside it.
func (p program) report(ctx context.Context, args []string) (int, error) {
	file, err := p.oneFile(flag.NewFlagSet("report", flag.ContinueOnError), args)
	if err != nil {
		return exitUnknown, err
	}
	r, err := judge(ctx, file)
	if err != nil {
		return exitUnknown, err
	}
	report.Summary(p.stdout, r)
	fmt.Fprintf(p.stdout, "  report   %s\n", filepath.Join(filepath.Dir(file), report.PageFile))
	return r.Verdict.ExitCode(), nil
}

func (p program) oneFile(flags *flag.FlagSet, args []string) (string, error) {
	names, err := p.parse(flags, args)
	if err != nil {
		return "", err
	}
	if len(names) != 1 {
		return "", fmt.Errorf("%w: name one history file", errUsage)
	}
	return names[0], nil
}
