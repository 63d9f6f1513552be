// Package jobs measures jobs on ZooKeeper, etcd and Postgres, beside River on the same Postgres:
// submissions, assignments and finished jobs per second, the time from submission to start, a
// backlog of 10,000 jobs, and recovery after a KILL. Workers are processes of their own.
package jobs

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

// New returns the benchmark.
func New() program.Benchmark {
	return &options{
		Options: report.Options{Guard: report.DefaultGuard, Rounds: 3, Limit: time.Hour},
		plan:    plan{ways: allWays},
	}
}

// Flags implements program.Benchmark.
func (s *options) Flags(f *flag.FlagSet) {
	s.Options.Flags(f)
	f.Func("ways", "what is compared (default "+strings.Join(allWays, ",")+")",
		func(ways string) error {
			s.plan.ways = strings.Split(ways, ",")
			for _, w := range s.plan.ways {
				if !slices.Contains(allWays, w) {
					return fmt.Errorf("there is no way %q; there is %s", w, strings.Join(allWays, ", "))
				}
			}
			return nil
		})
	f.IntVar(&s.plan.jobs, "jobs", 2000, "jobs of one measurement")
	f.IntVar(&s.plan.backlog, "backlog", 10_000, "jobs that wait in the rows 'backlog'")
	f.IntVar(&s.plan.starts, "starts", 200, "jobs of which the time until they start is measured")
	f.IntVar(&s.plan.capacity, "capacity", 16, "jobs that a worker runs at once")
	f.DurationVar(&s.plan.timeout, "timeout", 6*time.Second, "session timeout, in whole seconds")
	f.StringVar(&s.plan.profile, "profile", "", "write a CPU profile of each worker to this "+
		"`directory`")
}

// Check implements program.Benchmark.
func (s *options) Check() error {
	if p := s.plan; p.jobs < 1 || p.backlog < 1 || p.starts < 1 || p.capacity < 1 ||
		p.timeout < time.Second || p.timeout%time.Second != 0 {
		return errors.New("-timeout must be in whole seconds, and every number above 0")
	}
	return s.Options.Check()
}

// Measure implements program.Benchmark.
func (s *options) Measure(ctx context.Context, progress io.Writer) (report.Result, error) {
	return s.measure(ctx, progress)
}
