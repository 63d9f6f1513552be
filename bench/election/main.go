// Command election measures elections in ZooKeeper, etcd and Postgres: how long many candidates take
// to enrol, how long the next leader takes after a resignation and after a crash, how many
// candidates one death wakes, and what a process that leads costs its coordinator at rest.
// `make bench-election` runs it; BENCH_ARGS="-coordinators etcd -sizes 10,100" runs a part.
//
// Compare numbers within a run, never between machines: the candidates and the server share one
// machine.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ringfence/ringfence/bench/internal/program"
)

func main() {
	if program.IsChild() {
		program.Main(runChild)
		return
	}
	program.Main(run)
}

// options are the flags.
type options struct {
	output string
	plan   plan
	limit  time.Duration
}

func parse(args []string, diagnostics io.Writer) (s options, err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(diagnostics)
	names := flags.String("coordinators", strings.Join(allNames(), ","), "which `coordinators`, in this order")
	sizes := flags.String("sizes", "10,100,1000", "candidates in one election; empty for no elections")
	terms := flags.String("terms", "1,1000", "resources that one process leads; empty for none")
	flags.StringVar(&s.output, "o", "table", "what to print: table or json")
	flags.DurationVar(&s.plan.timeout, "timeout", 6*time.Second,
		"session timeout of the elections, in whole seconds")
	flags.IntVar(&s.plan.coordinators, "processes", 100,
		"most `coordinators` over which the candidates of an election are spread, as if each were a process")
	flags.IntVar(&s.plan.crashes, "crashes", 5, "leaders that are killed in each election")
	flags.IntVar(&s.plan.resignations, "resignations", 200, "leaders that resign in each election")
	flags.DurationVar(&s.plan.rest, "rest", 10*time.Second, "how long requests at rest are counted")
	flags.DurationVar(&s.limit, "limit", 20*time.Minute, "give up after this time")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	var errs [3]error
	s.plan.sizes, errs[0] = numbers(*sizes)
	s.plan.terms, errs[1] = numbers(*terms)
	s.plan.entries, errs[2] = find(*names)
	known := s.output == "table" || s.output == "json"
	if err := errors.Join(errs[:]...); err != nil || !known || flags.NArg() > 0 || !s.plan.valid() {
		return s, fmt.Errorf("bad arguments %q: see -h: %w", args, err)
	}
	return s, nil
}

// numbers reads a list of positive numbers.
func numbers(list string) (all []int, err error) {
	for word := range strings.SplitSeq(list, ",") {
		if word == "" {
			continue
		}
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q is not a positive number", word)
		}
		all = append(all, n)
	}
	return all, nil
}

// find returns the coordinators with these names.
func find(names string) (found []entry, err error) {
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(entries, func(e entry) bool { return e.name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no coordinator %q; there is %s", name, strings.Join(allNames(), ", "))
		}
		found = append(found, entries[i])
	}
	return found, nil
}

func run(ctx context.Context, args []string, out, diagnostics io.Writer) error {
	s, err := parse(args, diagnostics)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	r, err := measure(ctx, s.plan, diagnostics)
	if err != nil {
		return err
	}
	if s.output == "json" {
		return r.json(out)
	}
	return r.table(out)
}
