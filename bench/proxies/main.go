// Command proxies measures what a guard costs: pgbench, COPY and round trips with Postgres, pipelines
// and round trips with Redis, each on a direct connection, through a guard, and through the proxies
// that are installed. `make bench-pg` and `make bench-redis` run it;
// BENCH_ARGS="-rows 'select prepared' -seconds 1" runs a part.
//
// Compare numbers within a run, never between machines: client, proxies and server share one machine.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/ringfence/ringfence/bench/internal/program"
	"github.com/ringfence/ringfence/bench/internal/report"
)

func main() { program.Main(run) }

// settings are the flags.
type settings struct {
	report.Options
	tls           bool
	copyMegabytes int
	scale         int
}

// suites are the databases.
var suites = map[string]func(ctx context.Context, s *settings, progress io.Writer) (*report.Report, error){
	"postgres": measurePostgres,
	"redis":    measureRedis,
}

func parse(args []string, diagnostics io.Writer) (suite string, s *settings, err error) {
	s = &settings{Options: report.Options{Rounds: 3, Seconds: 3, Limit: time.Hour}}
	flags := flag.NewFlagSet("proxies", flag.ContinueOnError)
	flags.SetOutput(diagnostics)
	flags.Usage = func() {
		fmt.Fprintln(diagnostics, "usage: proxies [flags] postgres | redis")
		flags.PrintDefaults()
	}
	s.Flags(flags)
	flags.BoolVar(&s.tls, "tls", false, "TLS from the client to each proxy, and from there to the server")
	flags.IntVar(&s.copyMegabytes, "copy-mb", 500, "how much a COPY moves, in megabytes")
	flags.IntVar(&s.scale, "scale", 10, "of pgbench's tables")
	if err := flags.Parse(args); err != nil {
		return "", nil, err
	}
	if err := s.Check(); err != nil {
		return "", nil, err
	}
	if suites[flags.Arg(0)] == nil || flags.NArg() > 1 || s.copyMegabytes < 1 || s.scale < 1 {
		return "", nil, fmt.Errorf("bad arguments %q: see -h", args)
	}
	return flags.Arg(0), s, nil
}

func run(ctx context.Context, args []string, out, progress io.Writer) error {
	suite, s, err := parse(args, progress)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.Limit)
	defer cancel()
	r, err := suites[suite](ctx, s, progress)
	if err != nil {
		return err
	}
	return r.Write(out)
}
