package report

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"time"
)

// Options are the flags that the benchmarks share. A benchmark whose Guard, Rounds or Seconds are
// zero has no such flag.
type Options struct {
	Guard   string // the program
	Rounds  int
	Seconds float64       // of one measurement
	Limit   time.Duration // of the whole run
	Rows    *regexp.Regexp

	// Own says that the benchmark has a table of its own, and none of the flags that only a Report
	// has: -rows, -plot, and -o markdown.
	Own bool

	rounds, timed              bool // has -rounds, -seconds
	output, jsonFile, plotFile string
}

// Result is what a benchmark has measured. A *Report is one.
type Result interface {
	Table(out io.Writer) error
	JSON(out io.Writer) error
}

// DefaultGuard is where make build puts the guard.
const DefaultGuard = "../bin/guard"

// Flags declares the flags. The values that o has are the defaults.
func (o *Options) Flags(f *flag.FlagSet) {
	o.rounds, o.timed = o.Rounds > 0, o.Seconds > 0
	if o.Guard != "" {
		f.StringVar(&o.Guard, "guard", o.Guard, "the guard `program`")
	}
	if o.rounds {
		f.IntVar(&o.Rounds, "rounds", o.Rounds, "number of rounds; medians are reported")
	}
	if o.timed {
		f.Float64Var(&o.Seconds, "seconds", o.Seconds, "time of one measurement")
	}
	f.DurationVar(&o.Limit, "limit", o.Limit, "give up after this time")
	f.StringVar(&o.jsonFile, "json", "", "also write the JSON to this `file`")
	if o.Own {
		f.StringVar(&o.output, "o", "table", "what to print: table or json")
		return
	}
	f.StringVar(&o.output, "o", "table", "what to print: table, json or markdown (for "+
		"docs/benchmarks.md)")
	f.StringVar(&o.plotFile, "plot", "", "also write a plot to this `file` (SVG)")
	f.Func("rows", "only the rows whose names match this `regexp`", func(text string) (err error) {
		o.Rows, err = regexp.Compile(text)
		return err
	})
}

// Check returns what is wrong with the values, after the flags were parsed.
func (o *Options) Check() error {
	switch {
	case o.output != "table" && o.output != "json" && (o.output != "markdown" || o.Own):
		return fmt.Errorf("-o is %q", o.output)
	case o.rounds && o.Rounds < 1:
		return errors.New("-rounds must be at least 1")
	case o.timed && o.Seconds <= 0:
		return errors.New("-seconds must be above 0")
	}
	return nil
}

// Shared returns the options, for those who have them embedded.
func (o *Options) Shared() *Options { return o }

// Duration is the time of one measurement.
func (o *Options) Duration() time.Duration {
	return time.Duration(o.Seconds * float64(time.Second))
}

// Wants reports whether a row of this name is to be measured.
func (o *Options) Wants(name string) bool { return o.Rows == nil || o.Rows.MatchString(name) }

// Write prints a result as the flags ask, and writes the files that they name.
func (o *Options) Write(out io.Writer, r Result) error {
	var errs []error
	switch o.output {
	case "json":
		errs = append(errs, r.JSON(out))
	case "markdown":
		errs = append(errs, r.(*Report).markdown(out))
	default:
		errs = append(errs, r.Table(out))
	}
	if o.jsonFile != "" {
		errs = append(errs, toFile(o.jsonFile, r.JSON))
	}
	if o.plotFile != "" {
		errs = append(errs, toFile(o.plotFile, r.(*Report).plot))
	}
	return errors.Join(errs...)
}

func toFile(name string, write func(io.Writer) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
