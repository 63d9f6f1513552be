// Command takeover measures how long a new leader waits: from its claim until the guard has ended
// every session of its predecessor and admits it. `make bench-takeover` runs it;
// BENCH_ARGS="-rows 'postgres older=100 '" runs a part.
//
// The predecessor has between none and 1,000 sessions, idle or with an uncommitted write, through the
// guard that admits the new leader or spread over two.
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

func run(ctx context.Context, args []string, out, progress io.Writer) error {
	o := report.Options{Rounds: 5, Limit: 30 * time.Minute}
	flags := flag.NewFlagSet("takeover", flag.ContinueOnError)
	flags.SetOutput(progress)
	o.Flags(flags)
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	if err := o.Check(); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("bad arguments %q: see -h", flags.Args())
	}
	ctx, cancel := context.WithTimeout(ctx, o.Limit)
	defer cancel()
	r, err := measure(ctx, o, progress)
	if err != nil {
		return err
	}
	return r.Write(out)
}
