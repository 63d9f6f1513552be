// Package checkpoint measures the cost of a checkpointed step: fenced, not fenced, through a guard,
// written by hand, and with River, on one Postgres in one run.
package checkpoint

import (
	"context"
	"errors"
	"flag"
	"io"
	"time"

	"github.com/ringfence/ringfence/bench/internal/program"
	shared "github.com/ringfence/ringfence/bench/internal/report"
)

// settings are the flags.
type settings struct {
	shared.Options
	slice time.Duration // of one measurement
}

// New returns the benchmark.
func New() program.Benchmark {
	return &settings{Options: shared.Options{
		Guard: shared.DefaultGuard, Rounds: 11, Limit: 6 * time.Minute, Own: true,
	}}
}

// Flags implements program.Benchmark.
func (s *settings) Flags(f *flag.FlagSet) {
	s.Options.Flags(f)
	f.DurationVar(&s.slice, "slice", 400*time.Millisecond, "approximate time of one measurement")
}

// Check implements program.Benchmark.
func (s *settings) Check() error {
	if s.slice <= 0 {
		return errors.New("-slice must be above 0")
	}
	return s.Options.Check()
}

// Measure implements program.Benchmark.
func (s *settings) Measure(ctx context.Context, progress io.Writer) (shared.Result, error) {
	stage, err := newStage(ctx, s.Guard)
	if err != nil {
		return nil, err
	}
	defer stage.close()
	return measure(ctx, stage, plan{rounds: s.Rounds, slice: s.slice}, progress)
}
