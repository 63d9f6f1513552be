// Command jobs measures jobs on ZooKeeper, etcd and Postgres, beside River on the same Postgres:
// submissions, assignments and finished jobs per second, the time from submission to start, a backlog
// of 10,000 jobs, and recovery after a KILL. `make bench-jobs` runs it;
// BENCH_ARGS="-ways etcd -rows assign" runs a part.
//
// Workers are processes of their own. They, the servers and the benchmark share one machine, so
// compare numbers within a run, never between machines.
package main

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
	"github.com/ringfence/ringfence/bench/internal/report"
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
	report.Options
	plan plan
}

// plan says how much is measured.
type plan struct {
	ways     []string
	jobs     int           // of one measurement of speed
	backlog  int           // of jobs that wait
	starts   int           // of which the latency is measured
	capacity int           // of a worker
	timeout  time.Duration // of sessions
	profile  string        // a directory; empty: no profiles

	stores map[string]string // URLs, once they run
}

func parse(args []string, diagnostics io.Writer) (s options, err error) {
	s.Options = report.Options{Rounds: 3, Limit: time.Hour}
	flags := flag.NewFlagSet("jobs", flag.ContinueOnError)
	flags.SetOutput(diagnostics)
	s.Flags(flags)
	ways := flags.String("ways", strings.Join(allWays, ","), "what is compared")
	flags.IntVar(&s.plan.jobs, "jobs", 2000, "jobs of one measurement")
	flags.IntVar(&s.plan.backlog, "backlog", 10_000, "jobs that wait in the rows 'backlog'")
	flags.IntVar(&s.plan.starts, "starts", 200, "jobs of which the time until they start is measured")
	flags.IntVar(&s.plan.capacity, "capacity", 16, "jobs that a worker runs at once")
	flags.DurationVar(&s.plan.timeout, "timeout", 6*time.Second, "session timeout, in whole seconds")
	flags.StringVar(&s.plan.profile, "profile", "", "write a CPU profile of each worker to this `directory`")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	if err := s.Check(); err != nil {
		return s, err
	}
	s.plan.ways = strings.Split(*ways, ",")
	for _, w := range s.plan.ways {
		if !slices.Contains(allWays, w) {
			return s, fmt.Errorf("there is no way %q; there is %s", w, strings.Join(allWays, ", "))
		}
	}
	if p := s.plan; p.jobs < 1 || p.backlog < 1 || p.starts < 1 || p.capacity < 1 ||
		p.timeout < time.Second || p.timeout%time.Second != 0 || flags.NArg() > 0 {
		return s, fmt.Errorf("bad arguments %q: see -h", args)
	}
	return s, nil
}

func run(ctx context.Context, args []string, out, progress io.Writer) error {
	s, err := parse(args, progress)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.Limit)
	defer cancel()
	r, err := measure(ctx, s, progress)
	if err != nil {
		return err
	}
	return r.Write(out)
}
