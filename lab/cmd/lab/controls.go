package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/ringfence/ringfence/lab/check"
	"github.com/ringfence/ringfence/lab/report"
	"github.com/ringfence/ringfence/lab/scenario"
)

// caught is the result of a control.
type caught struct {
	scenario.Control
	result check.Result
	by     []string // the invariants that it violated
	ok     bool
}

// controls seeds each bug and demands that it is caught by what should catch it.
func (p program) controls(ctx context.Context, args []string) (int, error) {
	s, names, err := p.settings("controls", args, (*settings).register)
	if err != nil {
		return exitUnknown, err
	}
	chosen, err := chooseControls(names)
	if err != nil {
		return exitUnknown, err
	}
	if err := s.prepare(ctx, p.stderr); err != nil {
		return exitUnknown, err
	}
	var all []caught
	for _, c := range chosen {
		sc, _ := scenario.Find(c.Scenario)
		s.control = string(c.Name)
		all = append(all, catch(c, p.one(ctx, sc, s, false)))
		if ctx.Err() != nil {
			return exitUnknown, context.Cause(ctx)
		}
	}
	return p.concludeControls(all, s)
}

func chooseControls(names []string) ([]scenario.Control, error) {
	if len(names) == 0 || slices.Equal(names, []string{"all"}) {
		return scenario.Controls, nil
	}
	var chosen []scenario.Control
	for _, n := range names {
		c, ok := scenario.FindControl(n)
		if !ok {
			return nil, fmt.Errorf("%w: no control %q; there are %s", errUsage, n, controlNames())
		}
		chosen = append(chosen, c)
	}
	return chosen, nil
}

// catch checks whether a seeded bug was caught by what should catch it.
func catch(c scenario.Control, r check.Result) caught {
	by, ok := report.CaughtBy(c, r)
	return caught{c, r, by, ok}
}

func (p program) concludeControls(all []caught, s *settings) (int, error) {
	w := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CONTROL\tSEEDED BUG\tON\tVERDICT\tCAUGHT BY")
	code, found := exitValid, 0
	for _, c := range all {
		by := strings.Join(c.by, ", ")
		if c.ok {
			found++
		} else {
			by, code = fmt.Sprintf("NOT CAUGHT (%s)", by), exitInvalid
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", c.Name, c.Bug, c.Scenario, c.result.Verdict, by)
	}
	if err := w.Flush(); err != nil {
		return exitUnknown, err
	}
	fmt.Fprintf(p.stdout, "\n%d of %d seeded bugs caught\n", found, len(all))
	p.tellReports(s)
	if s.write == "" || code != exitValid {
		return code, nil
	}
	return code, updateTable(s.write, all)
}

// updateTable writes what was caught, and when, into the file. Rows of controls that were not run
// stay.
func updateTable(file string, all []caught) error {
	old, err := between(file, "controls")
	if err != nil {
		return err
	}
	rows := map[string]string{}
	for row := range strings.Lines(old) {
		if cells := strings.Split(row, "|"); len(cells) > 2 {
			rows[strings.Trim(cells[2], " `")] = row
		}
	}
	today := time.Now().UTC().Format(time.DateOnly)
	for _, c := range all {
		rows[string(c.Name)] = fmt.Sprintf("| %s | `%s` | %s | %s | %s |\n",
			c.Bug, c.Name, c.Scenario, strings.Join(c.by, ", "), today)
	}
	var b strings.Builder
	b.WriteString("| bug seeded | `--control` | on | caught by | last caught |\n")
	b.WriteString("|---|---|---|---|---|\n")
	for _, c := range scenario.Controls {
		b.WriteString(rows[string(c.Name)])
	}
	return replace(file, "controls", b.String())
}
