// Package program is what all benchmarks do around their measurements.
package program

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/ringfence/ringfence/bench/internal/report"
)

// Benchmark is one subcommand.
type Benchmark interface {
	Shared() *report.Options // with embedded report.Options
	Flags(*flag.FlagSet)     // declares its flags, the shared ones among them
	Check() error            // returns what is wrong with them, after they were parsed
	Measure(ctx context.Context, progress io.Writer) (report.Result, error)
}

// Parse reads the flags of a benchmark.
func Parse(b Benchmark, name string, args []string, diagnostics io.Writer) error {
	flags := flag.NewFlagSet("bench "+name, flag.ContinueOnError)
	flags.SetOutput(diagnostics)
	b.Flags(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("bad arguments %q: see -h", flags.Args())
	}
	return b.Check()
}

// Run parses the flags, measures, and prints the result.
func Run(
	ctx context.Context, b Benchmark, name string, args []string, out, progress io.Writer,
) error {
	if err := Parse(b, name, args, progress); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	o := b.Shared()
	ctx, cancel := context.WithTimeout(ctx, o.Limit)
	defer cancel()
	r, err := b.Measure(ctx, progress)
	if err != nil {
		return err
	}
	return o.Write(out, r)
}

// Main calls run, whose context ends with a signal, and exits with 1 after an error.
func Main(run func(context.Context) error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}
