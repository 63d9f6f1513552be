package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/ringfence/ringfence/lab"
	"github.com/ringfence/ringfence/lab/check"
	"github.com/ringfence/ringfence/lab/history"
	"github.com/ringfence/ringfence/lab/report"
	"github.com/ringfence/ringfence/lab/scenario"
)

// run runs scenarios, one after the other.
func (p program) run(ctx context.Context, args []string) (int, error) {
	s, names, err := p.settings("run", args, (*settings).registerRun)
	if err != nil {
		return exitUnknown, err
	}
	chosen, err := choose(names, s)
	if err != nil {
		return exitUnknown, err
	}
	if err := s.prepare(ctx, p.stderr); err != nil {
		return exitUnknown, err
	}
	var with, without []check.Result
	for _, sc := range chosen {
		with = append(with, p.one(ctx, sc, s, s.unguarded))
		if s.compare && ctx.Err() == nil {
			without = append(without, p.one(ctx, sc, s, true))
		}
		if ctx.Err() != nil {
			return exitUnknown, context.Cause(ctx)
		}
	}
	return p.conclude(s, with, without)
}

// choose finds the named scenarios, on the path that was asked for.
func choose(names []string, s *settings) ([]scenario.Scenario, error) {
	if len(names) == 0 {
		return nil, fmt.Errorf("%w: name scenarios, all, or patroni; lab list shows them", errUsage)
	}
	var chosen []scenario.Scenario
	for _, n := range names {
		if n == "all" || n == "patroni" {
			for _, sc := range scenario.Catalogue {
				byPatroni := sc.Topology.Cluster == scenario.Patroni
				if sc, why := s.onPath(sc); why == "" && byPatroni == (n == "patroni") {
					chosen = append(chosen, sc)
				}
			}
			continue
		}
		sc, ok := scenario.Find(n)
		if !ok {
			return nil, fmt.Errorf("%w: no scenario %q; lab list shows them", errUsage, n)
		}
		sc, why := s.onPath(sc)
		if why != "" {
			return nil, fmt.Errorf("%w: %s %s", errUsage, n, why)
		}
		chosen = append(chosen, sc)
	}
	return chosen, nil
}

// onPath returns the scenario on the path that was asked for, or why it cannot be run.
func (s *settings) onPath(sc scenario.Scenario) (on scenario.Scenario, why string) {
	if own := sc.Path(); own != "" && own != s.path {
		return sc, "can only be run with --path " + own
	}
	if p, ok := scenario.FindPath(s.path); ok {
		if sc, ok = p.Over(sc); !ok {
			return sc, fmt.Sprintf("cannot be run with --path %s: %s", p.Name, p.Lacks)
		}
	}
	if !sc.RunsIn(scenario.Injector(s.injector)) {
		return sc, "can only be run with --injector " + string(sc.Only)
	}
	if on := scenario.Elections(s.elections); !sc.RunsOn(on) {
		return sc, fmt.Sprintf("cannot be run with --coordinator %s: %s", on, sc.WhyNotOn(on))
	}
	if s.tls && (sc.Topology.Cluster == scenario.Patroni || sc.Topology.Sentinels) {
		return sc, "cannot be run with --tls: Patroni and Sentinel are set up without"
	}
	return sc, ""
}

// one runs, checks and reports one scenario.
func (p program) one(
	ctx context.Context, sc scenario.Scenario, s *settings, unguarded bool,
) check.Result {
	o, err := s.options(sc, unguarded)
	if err != nil {
		return p.failed(sc, unguarded, err)
	}
	start := time.Now()
	o.Progress = func(text string) {
		if !s.quiet {
			fmt.Fprintf(p.stderr, "%6.1fs  %s\n", time.Since(start).Seconds(), text)
		}
	}
	o.Progress(sc.Name + ": " + sc.About)
	control, seeded := scenario.FindControl(s.control)
	if seeded {
		control.Seed(&sc)
		o.Control, o.WarmUp = string(control.Name), control.WarmUp
	}
	runErr := lab.Run(ctx, sc, o)
	if runErr != nil {
		o.Progress("not completed: " + runErr.Error())
	}
	if change := control.Change(); change != nil {
		if err := rewrite(o.Dir, change); err != nil {
			return p.failed(sc, unguarded, err)
		}
	}
	r, err := judge(ctx, filepath.Join(o.Dir, lab.HistoryFile))
	if err != nil {
		return p.failed(sc, unguarded, err)
	}
	if s.publish != "" {
		if err := publish(ctx, s.publish, o.Dir); err != nil {
			return p.failed(sc, unguarded, err)
		}
	}
	if runErr != nil {
		r.Doubts = append(r.Doubts, "not completed: "+runErr.Error())
	}
	if !s.quiet {
		report.Summary(p.stderr, r)
		fmt.Fprintf(p.stderr, "  report   %s\n\n", filepath.Join(o.Dir, report.PageFile))
	}
	return r
}

// failed says why a run left nothing to judge, and returns its result.
func (p program) failed(sc scenario.Scenario, unguarded bool, err error) check.Result {
	fmt.Fprintf(p.stderr, "lab: %s was not run: %s\n", sc.Name, err)
	return check.Result{
		Verdict: check.Unknown, Doubts: []string{err.Error()},
		Header: &history.Header{Scenario: sc.Name, Guarded: !unguarded},
	}
}

// rewrite puts a bug into a history that was recorded without it.
func rewrite(dir string, change func([]history.Event) []history.Event) error {
	file := filepath.Join(dir, lab.HistoryFile)
	events, err := read(file)
	if err != nil {
		return err
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	w := history.NewWriter(f)
	for _, e := range change(events) {
		w.Add(e)
	}
	return errors.Join(w.Err(), f.Close())
}

// read reads a history.
func read(file string) ([]history.Event, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	events, err := history.Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return events, nil
}

// judge checks a history and writes the report beside it.
func judge(ctx context.Context, file string) (check.Result, error) {
	events, err := read(file)
	if err != nil {
		return check.Result{}, err
	}
	r := check.Check(ctx, events)
	dir := filepath.Dir(file)
	if err := visualize(events, r, filepath.Join(dir, report.ModelFile)); err != nil {
		return r, err
	}
	return r, errors.Join(report.Save(dir, events, r), report.Index(filepath.Dir(dir)))
}

// visualize draws the model of an invalid history, and removes an old drawing of any other.
func visualize(events []history.Event, r check.Result, file string) error {
	if r.Verdict == check.Invalid {
		return check.Visualize(events, file)
	}
	if err := os.Remove(file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// conclude prints the table and returns the exit code.
func (p program) conclude(s *settings, with, without []check.Result) (int, error) {
	if *s.as == "json" {
		if err := p.json(append(with, without...)); err != nil {
			return exitUnknown, err
		}
	} else {
		report.Table(p.stdout, with)
		if len(without) > 0 {
			fmt.Fprintln(p.stdout, "\nThe same with the guard off:")
			report.Table(p.stdout, without)
		}
		p.tellReports(s)
	}
	code := exitValid
	for _, r := range with {
		code = worse(code, r.Verdict.ExitCode())
	}
	for _, r := range without {
		if r.Verdict != check.Invalid || r.Figures.StaleAccepted == 0 {
			fmt.Fprintf(p.stderr,
				"lab: %s without the guard is %s and has accepted %d stale writes: "+
					"it proves nothing unless it accepts some\n",
				r.Header.Scenario, r.Verdict, r.Figures.StaleAccepted)
			code = worse(code, exitUnknown)
		}
	}
	if s.write != "" && code == exitValid {
		return code, updateResults(s.write, s.elect(), with, without)
	}
	return code, nil
}

// tellReports says where the reports are.
func (p program) tellReports(s *settings) {
	fmt.Fprintf(p.stdout, "reports: %s\n", filepath.Join(s.dir, report.IndexFile))
}

// worse returns the worse of two exit codes: invalid outweighs unknown, and unknown outweighs
// valid.
func worse(a, b int) int {
	if a == exitInvalid || b == exitInvalid {
		return exitInvalid
	}
	return max(a, b)
}
