package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ringfence/ringfence/lab"
	"github.com/ringfence/ringfence/lab/containers"
	"github.com/ringfence/ringfence/lab/local"
	"github.com/ringfence/ringfence/lab/scenario"
	"github.com/ringfence/ringfence/lab/system"
)

// settings are the flags of run and controls.
type settings struct {
	seed      uint64
	time      time.Duration
	jobs      int
	session   time.Duration
	control   string
	unguarded bool
	compare   bool
	injector  string
	dir       string
	quiet     bool
	as        *string
	write     string
	elections string
	tls       bool
	path      string
	publish   string
}

func (s *settings) register(flags *flag.FlagSet) {
	flags.Uint64Var(&s.seed, "seed", 0, "of random choices; 0: a new one, which is printed")
	flags.DurationVar(&s.time, "time", 0, "how long scenarios with random faults last (30s when 0)")
	flags.IntVar(&s.jobs, "jobs", 0, "how many jobs are submitted, at least, in scenarios about jobs "+
		"(when 0: the scenario's number)")
	flags.DurationVar(&s.session, "session", 0, "session timeout at the coordinator, such as 10s "+
		"for production (when 0: the scenario's, mostly 1s)")
	flags.StringVar(&s.injector, "injector", string(scenario.Local),
		"local (processes of this machine) or containers (docker compose)")
	flags.StringVar(&s.elections, "coordinator", string(scenario.InZooKeeper),
		"where elections are held: "+elections())
	flags.BoolVar(&s.tls, "tls", false, "with TLS on every leg of guards and workers; local only")
	flags.StringVar(&s.dir, "dir", "runs",
		"where each run leaves a directory with history, report and logs")
	flags.BoolVar(&s.quiet, "quiet", false, "print only results, and no progress")
	flags.StringVar(&s.publish, "publish", "",
		"also write history and page of each run into this directory, with a list and the second "+
			"checker, for download")
	flags.StringVar(&s.write, "write", "",
		"update the rows of the table in this file, if all results are as expected")
	s.as = format(flags)
}

func (s *settings) registerRun(flags *flag.FlagSet) {
	s.register(flags)
	flags.StringVar(&s.path, "path", "", pathUsage())
	flags.StringVar(&s.control, "control", "", "seed a bug: "+controlNames())
	flags.BoolVar(&s.unguarded, "unguarded", false, "workers bypass the guard, without tokens")
	flags.BoolVar(&s.compare, "compare", false, "run each scenario twice with one seed: with the "+
		"guard, which has to be valid, and without, which has to accept stale writes")
}

// settings reads the flags and names of a command, and checks them before anything is built.
func (p program) settings(
	command string, args []string, register func(*settings, *flag.FlagSet),
) (*settings, []string, error) {
	s := &settings{}
	flags := flag.NewFlagSet(command, flag.ContinueOnError)
	register(s, flags)
	names, err := p.parse(flags, args)
	if err == nil {
		err = s.check()
	}
	return s, names, err
}

func controlNames() string {
	var names []string
	for _, c := range scenario.Controls {
		names = append(names, string(c.Name))
	}
	return strings.Join(names, ", ")
}

// check finds mistakes, and chooses a seed if there is none.
func (s *settings) check() error {
	if s.seed == 0 {
		s.seed = rand.Uint64N(1 << 32)
	}
	if s.session != 0 && (s.session < lab.ShortestSession || s.session > lab.LongestSession) {
		return fmt.Errorf("%w: --session %v: from %v to %v",
			errUsage, s.session, lab.ShortestSession, lab.LongestSession)
	}
	if !slices.Contains([]scenario.Injector{scenario.Local, scenario.Containers},
		scenario.Injector(s.injector)) {
		return fmt.Errorf("%w: no injector %q; there are local and containers", errUsage,
			s.injector)
	}
	if !slices.Contains(scenario.AllElections, scenario.Elections(s.elections)) {
		return fmt.Errorf("%w: no coordinator %q; there are %s", errUsage, s.elections, elections())
	}
	if s.tls && (s.injector != string(scenario.Local) || s.write != "") {
		return fmt.Errorf("%w: --tls goes with --injector local only, and not with --write", errUsage)
	}
	if _, ok := scenario.FindPath(s.path); s.path != "" && !ok {
		return fmt.Errorf("%w: no path %q; there are sql, carrier, direct and agent", errUsage, s.path)
	}
	if s.write != "" && s.path != "" && s.path != string(scenario.SQL) {
		return fmt.Errorf("%w: --path %s does not go with --write: the README has no table of it",
			errUsage, s.path)
	}
	if s.path == string(scenario.SQL) && s.tls {
		return fmt.Errorf("%w: --path sql does not go with --tls", errUsage)
	}
	if _, ok := scenario.FindControl(s.control); s.control != "" && !ok {
		return fmt.Errorf("%w: no control %q; there are %s", errUsage, s.control, controlNames())
	}
	if s.compare && (s.unguarded || s.control != "") {
		return fmt.Errorf("%w: --compare goes with neither --unguarded nor --control", errUsage)
	}
	return nil
}

// imagesTime bounds the building of images, which takes minutes the first time.
const imagesTime = 20 * time.Minute

// prepare builds the images, if the injector needs them.
func (s *settings) prepare(ctx context.Context, log io.Writer) error {
	if s.injector != string(scenario.Containers) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, imagesTime)
	defer cancel()
	if err := containers.Available(ctx); err != nil {
		return err
	}
	fmt.Fprintln(log, "building images; this takes minutes the first time")
	return containers.Images(ctx, scenario.Elections(s.elections), io.Discard)
}

// options returns the options of one run, with a new directory.
func (s *settings) options(sc scenario.Scenario, unguarded bool) (lab.Options, error) {
	suffix := ""
	if s.control != "" {
		suffix = "-" + s.control
	}
	if unguarded {
		suffix = "-unguarded"
	}
	now := time.Now().Format("20060102-150405.000")
	dir := filepath.Join(s.dir, now+"-"+sc.Name+suffix)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return lab.Options{}, err
	}
	programs, err := findPrograms()
	if err != nil {
		return lab.Options{}, err
	}
	return lab.Options{
		Build: builders[scenario.Injector(s.injector)], Injector: scenario.Injector(s.injector),
		Programs: programs, Dir: dir, Seed: s.seed, Time: s.time, Jobs: s.jobs, Session: s.session,
		Unguarded: unguarded, Command: s.command(sc, unguarded),
		Elections: s.elect(), TLS: s.tls,
	}, nil
}

// pathUsage describes --path.
func pathUsage() string {
	text := "how workers lead and write, in place of the scenario's way; what cannot be run so is " +
		"left out. "
	for _, p := range scenario.Paths {
		text += p.Name + ": " + p.About + ". "
	}
	return strings.TrimSpace(text)
}

// elect returns where elections are held.
func (s *settings) elect() scenario.Elections {
	if s.path == string(scenario.SQL) {
		return scenario.BySQL
	}
	return scenario.Elections(s.elections)
}

// command returns the command that repeats a run.
func (s *settings) command(sc scenario.Scenario, unguarded bool) string {
	c := fmt.Sprintf("bin/lab run %s --seed %d", sc.Name, s.seed)
	if sc.Topology.Route == scenario.SQL {
		c += " --path sql"
	} else if s.elections != string(scenario.InZooKeeper) {
		c += " --coordinator " + s.elections
	}
	if s.path != "" && sc.Topology.Route != scenario.SQL {
		c += " --path " + s.path
	}
	if s.tls {
		c += " --tls"
	}
	if s.jobs != 0 {
		c += fmt.Sprintf(" --jobs %d", s.jobs)
	}
	if s.time != 0 {
		c += fmt.Sprintf(" --time %v", s.time)
	}
	if s.session != 0 {
		c += fmt.Sprintf(" --session %v", s.session)
	}
	if s.control != "" {
		c += " --control " + s.control
	}
	if unguarded {
		c += " --unguarded"
	}
	if s.injector != string(scenario.Local) {
		c += " --injector " + s.injector
	}
	return c
}

// builders has every injector.
var builders = map[scenario.Injector]func(context.Context, system.Build) (system.System, error){
	scenario.Local: func(ctx context.Context, b system.Build) (system.System, error) {
		return local.Build(ctx, b)
	},
	scenario.Containers: func(ctx context.Context, b system.Build) (system.System, error) {
		return containers.Build(ctx, b)
	},
}

// findPrograms finds the programs beside this one, where make builds them.
func findPrograms() (system.Programs, error) {
	self, err := os.Executable()
	if err != nil {
		return system.Programs{}, err
	}
	dir := filepath.Dir(self)
	p := system.Programs{
		Guard: filepath.Join(dir, "guard"), Leader: filepath.Join(dir, "leader"),
		Worker:      filepath.Join(dir, "lab-worker"),
		FlawedGuard: filepath.Join(dir, "lab-flawed-guard"),
	}
	for _, f := range []string{p.Guard, p.Leader, p.Worker, p.FlawedGuard} {
		if _, err := os.Stat(f); err != nil {
			return p, fmt.Errorf("%w; make lab builds it", err)
		}
	}
	return p, nil
}

// elections names the coordinators.
func elections() string {
	var all []string
	for _, e := range scenario.AllElections {
		all = append(all, string(e))
	}
	return strings.Join(all, ", ")
}
