package report

import (
	"errors"
	"flag"
	"fmt"
	"regexp"
	"time"
)

// Options are the flags that the benchmarks share.
type Options struct {
	Rounds  int
	Seconds float64       // of one measurement
	Limit   time.Duration // of the whole run
	Rows    *regexp.Regexp
	Guard   string // the program

	timed                      bool // has -seconds
	output, jsonFile, plotFile string
}

// Flags declares the flags. The values that o has are the defaults.
func (o *Options) Flags(f *flag.FlagSet) {
	f.StringVar(&o.Guard, "guard", "../bin/guard", "the guard `program`")
	f.IntVar(&o.Rounds, "rounds", o.Rounds, "number of rounds; medians are reported")
	if o.Seconds > 0 { // otherwise this program has no such flag
		o.timed = true
		f.Float64Var(&o.Seconds, "seconds", o.Seconds, "time of one measurement")
	}
	f.DurationVar(&o.Limit, "limit", o.Limit, "give up after this time")
	f.Func("rows", "only the rows whose names match this `regexp`", func(text string) (err error) {
		o.Rows, err = regexp.Compile(text)
		return err
	})
	f.StringVar(&o.output, "o", "table", "what to print: table, json or markdown (for docs/benchmarks.md)")
	f.StringVar(&o.jsonFile, "json", "", "also write the JSON to this `file`")
	f.StringVar(&o.plotFile, "plot", "", "also write a plot to this `file` (SVG)")
}

// Check returns what is wrong with the values, after the flags were parsed.
func (o *Options) Check() error {
	switch {
	case o.output != "table" && o.output != "json" && o.output != "markdown":
		return fmt.Errorf("-o is %q, not table, json or markdown", o.output)
	case o.Rounds < 1:
		return errors.New("-rounds must be at least 1")
	case o.timed && o.Seconds <= 0:
		return errors.New("-seconds must be above 0")
	}
	return nil
}

// Duration is the time of one measurement.
func (o *Options) Duration() time.Duration {
	return time.Duration(o.Seconds * float64(time.Second))
}

// Wants reports whether a row of this name is to be measured.
func (o *Options) Wants(name string) bool { return o.Rows == nil || o.Rows.MatchString(name) }
