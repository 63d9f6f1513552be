// Package election measures elections in ZooKeeper, etcd and Postgres: how long many candidates
// take to enrol, how long the next leader takes after a resignation and after a crash, how many
// candidates one death wakes, and what a process that leads costs its coordinator at rest.
package election

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/ringfence/ringfence/bench/internal/program"
	shared "github.com/ringfence/ringfence/bench/internal/report"
)

// options are the flags.
type options struct {
	shared.Options
	plan plan
}

// New returns the benchmark.
func New() program.Benchmark {
	return &options{
		Options: shared.Options{Limit: 20 * time.Minute, Own: true},
		plan: plan{
			entries: entries, sizes: []int{10, 100, 1000}, terms: []int{1, 1000},
			agentTerms: []int{1000, 10_000},
		},
	}
}

// Flags implements program.Benchmark.
func (s *options) Flags(f *flag.FlagSet) {
	s.Options.Flags(f)
	f.Func("coordinators", "which `coordinators`, in this order (default "+
		strings.Join(allNames(), ",")+")",
		func(names string) (err error) {
			s.plan.entries, err = find(names)
			return err
		})
	program.Numbers(f, &s.plan.sizes, "sizes", "candidates in one election; empty for no elections")
	program.Numbers(f, &s.plan.terms, "terms", "resources that one process leads; empty for none")
	program.Numbers(f, &s.plan.agentTerms, "agent-terms", "terms that the clients of one agent "+
		"hold; empty for none")
	f.StringVar(&s.plan.leader, "leader", "../bin/leader", "the leader `program`")
	f.DurationVar(&s.plan.timeout, "timeout", 6*time.Second,
		"session timeout of the elections, in whole seconds")
	f.IntVar(&s.plan.coordinators, "processes", 100,
		"most `coordinators` over which the candidates of an election are spread, as if each were a "+
			"process")
	f.IntVar(&s.plan.crashes, "crashes", 5, "leaders that are killed in each election")
	f.IntVar(&s.plan.resignations, "resignations", 200, "leaders that resign in each election")
	f.DurationVar(&s.plan.rest, "rest", 10*time.Second, "how long requests at rest are counted")
}

// Check implements program.Benchmark.
func (s *options) Check() error {
	if !s.plan.valid() {
		return errors.New("-timeout must be in whole seconds, and every number above 0")
	}
	return s.Options.Check()
}

// Measure implements program.Benchmark.
func (s *options) Measure(ctx context.Context, progress io.Writer) (shared.Result, error) {
	return measure(ctx, s.plan, progress)
}

// find returns the coordinators with these names.
func find(names string) (found []entry, err error) {
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(entries, func(e entry) bool { return e.name == name })
		if i < 0 {
			return nil,
				fmt.Errorf("there is no coordinator %q; there is %s", name, strings.Join(allNames(), ", "))
		}
		found = append(found, entries[i])
	}
	return found, nil
}
