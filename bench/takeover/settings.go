// Package takeover measures how long a new leader waits: from its claim until the guard has ended
// every session of its predecessor and admits it.
//
// The predecessor has between none and 1,000 sessions, idle or with an uncommitted write, through
// the guard that admits the new leader or spread over two.
package takeover

import (
	"context"
	"io"
	"time"

	"github.com/ringfence/ringfence/bench/internal/program"
	"github.com/ringfence/ringfence/bench/internal/report"
)

// settings are the flags.
type settings struct{ report.Options }

// New returns the benchmark.
func New() program.Benchmark {
	return &settings{report.Options{Guard: report.DefaultGuard, Rounds: 5, Limit: 30 * time.Minute}}
}

// Measure implements program.Benchmark.
func (s *settings) Measure(ctx context.Context, progress io.Writer) (report.Result, error) {
	return measure(ctx, s.Options, progress)
}
