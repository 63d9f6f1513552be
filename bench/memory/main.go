// Command memory measures what a guard's sessions and marks cost: memory for each idle session, growth
// over many connections, logins per second, and what 100,000 marks do to admission, memory and `guard
// status`. `make bench-memory` runs it; BENCH_ARGS="-rows idle -sessions 1000" runs a part.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/ringfence/ringfence/bench/internal/program"
	"github.com/ringfence/ringfence/bench/internal/report"
)

func main() { program.Main(run) }

// settings are the flags.
type settings struct {
	report.Options
	tls      bool
	sessions []int
	cycles   int
	marks    int
}

func parse(args []string, diagnostics io.Writer) (*settings, error) {
	s := &settings{
		Options:  report.Options{Rounds: 3, Seconds: 3, Limit: time.Hour},
		sessions: []int{1000, 10000},
	}
	flags := flag.NewFlagSet("memory", flag.ContinueOnError)
	flags.SetOutput(diagnostics)
	s.Flags(flags)
	flags.BoolVar(&s.tls, "tls", false, "TLS from the client to each proxy, and from there to the server")
	flags.Func("sessions", "idle sessions, as a `list` such as 1000,10000 (the default)", func(list string) (err error) {
		s.sessions, err = numbers(list)
		return err
	})
	flags.IntVar(&s.cycles, "cycles", 100000, "connections that come and go, for growth")
	flags.IntVar(&s.marks, "marks", 100000, "resources with a mark")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if err := s.Check(); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 || s.cycles < 100 || s.marks < 1 {
		return nil, fmt.Errorf("bad arguments %q: see -h", args)
	}
	return s, nil
}

// name is the name of the report.
func (s *settings) name() string {
	if s.tls {
		return "memory with TLS"
	}
	return "memory"
}

// numbers reads a list of positive numbers.
func numbers(list string) (all []int, err error) {
	for word := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q is not a positive number", word)
		}
		all = append(all, n)
	}
	return all, nil
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
	r := report.New(s.name(), s.Options)
	for _, measure := range []func(context.Context, *settings, *report.Report, io.Writer) error{
		measureIdle, measureLogins, measureGrowth, measureMarks,
	} {
		if err := measure(ctx, s, r, progress); err != nil {
			return err
		}
	}
	return r.Write(out)
}
