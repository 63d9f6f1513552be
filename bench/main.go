// Command bench measures the cost of a checkpointed step: fenced, not fenced, through a guard,
// written by hand, and with River, on one Postgres in one run. `make bench-checkpoint` runs it.
//
// Compare numbers within a run, never between machines: client, guard and server share one machine.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/ringfence/ringfence/bench/internal/program"
)

func main() { program.Main(run) }

// settings are the flags.
type settings struct {
	guard  string
	output string
	plan   plan
	limit  time.Duration
}

func parse(args []string, diagnostics io.Writer) (s settings, err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(diagnostics)
	flags.StringVar(&s.guard, "guard", "../bin/guard", "the guard `program`")
	flags.StringVar(&s.output, "o", "table", "what to print: table or json")
	flags.IntVar(&s.plan.rounds, "rounds", 11, "number of measurements; medians are reported")
	flags.DurationVar(&s.plan.slice, "slice", 400*time.Millisecond,
		"approximate time of one measurement")
	flags.DurationVar(&s.limit, "limit", 6*time.Minute, "give up after this time")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	known := s.output == "table" || s.output == "json"
	if !known || s.plan.rounds < 1 || s.plan.slice <= 0 || flags.NArg() > 0 {
		return s, fmt.Errorf("bad arguments %q: see -h", args)
	}
	return s, nil
}

func run(ctx context.Context, args []string, out, diagnostics io.Writer) error {
	s, err := parse(args, diagnostics)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	stage, err := newStage(ctx, s.guard)
	if err != nil {
		return err
	}
	defer stage.close()
	r, err := measure(ctx, stage, s.plan, diagnostics)
	if err != nil {
		return err
	}
	if s.output == "json" {
		return r.json(out)
	}
	return r.table(out)
}
