// Package proxies measures what a guard costs: pgbench, COPY and round trips with Postgres,
// pipelines and round trips with Redis, each on a direct connection, through a guard, and through
// the proxies that are installed.
package proxies

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
	tls           bool
	copyMegabytes int
	scale         int

	measure func(ctx context.Context, s *settings, progress io.Writer) (*report.Report, error)
}

// Postgres returns the benchmark of Postgres.
func Postgres() program.Benchmark { return newSettings(measurePostgres) }

// Redis returns the benchmark of Redis.
func Redis() program.Benchmark { return newSettings(measureRedis) }

func newSettings(
	measure func(ctx context.Context, s *settings, progress io.Writer) (*report.Report, error),
) *settings {
	return &settings{measure: measure, Options: report.Options{
		Guard: report.DefaultGuard, Rounds: 3, Seconds: 3, Limit: time.Hour,
	}}
}

// Flags implements program.Benchmark.
func (s *settings) Flags(f *flag.FlagSet) {
	s.Options.Flags(f)
	f.BoolVar(&s.tls, "tls", false, "TLS from the client to each proxy, and from there to the server")
	f.IntVar(&s.copyMegabytes, "copy-mb", 500, "how much a COPY moves, in megabytes")
	f.IntVar(&s.scale, "scale", 10, "of pgbench's tables")
}

// Check implements program.Benchmark.
func (s *settings) Check() error {
	if s.copyMegabytes < 1 || s.scale < 1 {
		return errors.New("-copy-mb and -scale must be above 0")
	}
	return s.Options.Check()
}

// Measure implements program.Benchmark.
func (s *settings) Measure(ctx context.Context, progress io.Writer) (report.Result, error) {
	return s.measure(ctx, s, progress)
}
