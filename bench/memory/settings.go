// Package memory measures what a guard's sessions and marks cost: memory for each idle session,
// growth over many connections, logins per second, and what 100,000 marks do to admission, memory
// and `guard status`.
package memory

import (
	"context"
	"errors"
	"flag"
	"io"
	"time"

	"github.com/ringfence/ringfence/bench/internal/program"
	"github.com/ringfence/ringfence/bench/internal/report"
)

// settings are the flags.
type settings struct {
	report.Options
	tls      bool
	sessions []int
	cycles   int
	marks    int
}

// New returns the benchmark.
func New() program.Benchmark {
	return &settings{
		Options: report.Options{
			Guard: report.DefaultGuard, Rounds: 3, Seconds: 3, Limit: time.Hour,
		},
		sessions: []int{1000, 10000},
	}
}

// Flags implements program.Benchmark.
func (s *settings) Flags(f *flag.FlagSet) {
	s.Options.Flags(f)
	f.BoolVar(&s.tls, "tls", false, "TLS from the client to each proxy, and from there to the server")
	program.Numbers(f, &s.sessions, "sessions", "idle sessions, as a `list`")
	f.IntVar(&s.cycles, "cycles", 100000, "connections that come and go, for growth")
	f.IntVar(&s.marks, "marks", 100000, "resources with a mark")
}

// Check implements program.Benchmark.
func (s *settings) Check() error {
	if len(s.sessions) == 0 || s.cycles < 100 || s.marks < 1 {
		return errors.New("-sessions may not be empty, -cycles must be at least 100, and -marks 1")
	}
	return s.Options.Check()
}

// name is the name of the report.
func (s *settings) name() string {
	if s.tls {
		return "memory with TLS"
	}
	return "memory"
}

// Measure implements program.Benchmark.
func (s *settings) Measure(ctx context.Context, progress io.Writer) (report.Result, error) {
	r := report.New(s.name(), s.Options)
	for _, measure := range []func(context.Context, *settings, *report.Report, io.Writer) error{
		measureIdle, measureLogins, measureGrowth, measureMarks,
	} {
		if err := measure(ctx, s, r, progress); err != nil {
			return nil, err
		}
	}
	return r, nil
}
