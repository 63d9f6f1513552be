package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ringfence/ringfence/lab/evidence"
	"github.com/ringfence/ringfence/lab/history"
	"github.com/ringfence/ringfence/lab/inject"
	"github.com/ringfence/ringfence/lab/record"
	"github.com/ringfence/ringfence/lab/scenario"
	"github.com/ringfence/ringfence/lab/system"
	"github.com/ringfence/ringfence/lab/traffic"
)

// Options say how a scenario is run.
type Options struct {
	Build    func(ctx context.Context, b system.Build) (system.System, error)
	Injector scenario.Injector
	Programs system.Programs
	Dir      string        // of this run, for history.jsonl and the logs
	Seed     uint64        // of random choices
	Time     time.Duration // how long a random scenario lasts
	// the least number of jobs, in scenarios about them; 0: the scenario's
	Jobs      int
	Session   time.Duration      // session timeout at the coordinator; 0: the scenario's
	Elections scenario.Elections // which coordinator; ZooKeeper when empty
	TLS       bool               // on every leg of guards and workers
	Unguarded bool               // the workers bypass the guard, without tokens
	Control   string             // the seeded bug, for the header
	Command   string             // that repeats the run, for the header
	WarmUp    time.Duration      // the limit until the first writes; 40 s when zero
	Progress  func(text string)
}

const (
	buildTime   = 3 * time.Minute  // the images of containers exist by then
	healTime    = 20 * time.Second // for a new write after all faults
	stopTime    = 30 * time.Second // for workers to end
	collectTime = time.Minute      // for all evidence

	attemptTime  = 10 * time.Second        // for a stale attempt; a seeded bug may refuse none
	recklessTime = 1500 * time.Millisecond // for a deposed leader that nobody refuses
)

// The session timeouts that a run can have. Its faults and limits are made for these.
const (
	ShortestSession = 600 * time.Millisecond
	LongestSession  = 15 * time.Second
)

// endless is the number of rounds of a task that must not end within a run.
const endless = 1 << 30

// HistoryFile is the name of a run's history in its directory.
const HistoryFile = "history.jsonl"

// run is one run of a scenario.
type run struct {
	scenario.Scenario
	o   Options
	rec *record.Recorder
	sys system.System
	in  *inject.Injector
}

// Run runs a scenario and leaves its history in o.Dir. An error says why the run was not completed.
// Its history then ends early and cannot be valid.
func Run(ctx context.Context, s scenario.Scenario, o Options) (err error) {
	file, err := os.Create(filepath.Join(o.Dir, HistoryFile))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	s.Workload.Kind = cmp.Or(s.Workload.Kind, scenario.Ledger)
	s.Workload.Pause = cmp.Or(s.Workload.Pause, 5*time.Millisecond)
	s.Workload.Rounds = cmp.Or(s.Workload.Rounds, endless)
	s.Topology.Route = cmp.Or(s.Topology.Route, scenario.Guarded)
	if s.Topology.Route != scenario.SQL {
		s.Topology.Elections = cmp.Or(o.Elections, scenario.InZooKeeper)
	}
	s.Topology.TLS = o.TLS
	if o.Session > 0 {
		s.SetSession(o.Session)
	}
	if s.Workload.Kind == scenario.Jobs {
		s.Workload.Jobs = cmp.Or(o.Jobs, s.Workload.Jobs)
		s.Expect.Jobs = cmp.Or(s.Workload.Jobs, s.Expect.Jobs)
	}
	if o.Unguarded {
		s.Unguard()
	}
	r := &run{Scenario: s, o: o, rec: record.New(history.NewWriter(file))}
	r.rec.Tell = o.Progress
	r.rec.Add(history.Event{Kind: history.Run, Header: r.header()})
	if err := r.complete(ctx); err != nil {
		r.rec.Note("lab", "the run was not completed: "+err.Error())
		return errors.Join(err, r.rec.Err())
	}
	r.rec.Add(history.Event{Kind: history.End})
	return r.rec.Err()
}

func (r *run) header() *history.Header {
	return &history.Header{
		Scenario: r.Name, About: r.About, Seed: r.o.Seed, Command: r.o.Command,
		Guarded: !r.o.Unguarded, Control: r.o.Control, Injector: string(r.o.Injector),
		Coordinator: string(r.Topology.Elections),
		Started:     time.Now().UTC().Truncate(time.Millisecond),
		Session:     history.Duration(r.Topology.Session), Expect: r.Expect,
	}
}

func (r *run) complete(ctx context.Context) (err error) {
	if err := r.build(ctx); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			r.rec.Progress("%s", r.sys.Diagnose())
		}
		err = errors.Join(err, r.sys.Close())
	}()
	err = r.supervised(ctx, func() error {
		if r.Workload.Kind == scenario.Jobs {
			return r.traffic().While(ctx, r.scene)
		}
		return r.scene(ctx)
	})
	return errors.Join(err, r.stopWorkers(ctx), r.collect(ctx))
}

// scene is what happens while the workers are supervised.
func (r *run) scene(ctx context.Context) error {
	if err := r.warmUp(ctx); err != nil {
		return err
	}
	return r.disturb(ctx)
}

// supervised restarts workers that end by themselves, while do runs.
func (r *run) supervised(ctx context.Context, do func() error) error {
	ctx, stop := context.WithCancel(ctx)
	var supervisor sync.WaitGroup
	supervisor.Go(func() { r.in.Supervise(ctx) })
	defer supervisor.Wait()
	defer stop()
	return do()
}

func (r *run) build(ctx context.Context) (err error) {
	t := r.Topology
	servers := slices.Compact(append(t.CoordinatorNames(), "postgres", "redis"))
	r.rec.Progress("building the system: %s, %d guard, %d workers", strings.Join(servers, ", "),
		t.Guards, t.Workers)
	bounded, cancel := context.WithTimeout(ctx, buildTime)
	defer cancel()
	r.sys, err = r.o.Build(bounded, system.Build{
		Topology: t, Workload: r.Workload, Seed: r.o.Seed, Dir: r.o.Dir, Programs: r.o.Programs,
		Events: r.rec.Add,
	})
	if err != nil {
		return fmt.Errorf("the system could not be built: %w", err)
	}
	if err := evidence.Prepare(bounded, r.Scenario, r.sys); err != nil {
		return errors.Join(err, r.sys.Close())
	}
	r.in = inject.New(r.Scenario, r.sys, r.rec, r.o.Seed)
	r.in.Time, r.in.Unguarded = r.o.Time, r.o.Unguarded
	return nil
}

// traffic are the jobs of the scenario.
func (r *run) traffic() *traffic.Load { return traffic.New(r.Scenario, r.sys, r.rec, r.o.Seed) }

// collect records what the databases and the coordinator hold.
func (r *run) collect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), collectTime)
	defer cancel()
	err := evidence.Collect(ctx, r.Scenario, r.sys, r.rec)
	if r.Workload.Kind == scenario.Jobs {
		err = errors.Join(err, r.traffic().Collect(ctx))
	}
	return err
}

// warmUp starts the workers and waits for the load.
func (r *run) warmUp(ctx context.Context) error {
	limit := cmp.Or(r.o.WarmUp, 40*time.Second)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not within %v", limit))
	defer cancel()
	for _, w := range r.Topology.WorkerNames() {
		if err := r.sys.Start(ctx, w); err != nil {
			return err
		}
	}
	want := max(1, r.Expect.Before)
	what := fmt.Sprintf("%d acknowledged writes before the first fault", want)
	if err := r.rec.Wait(ctx, what, func(s *record.Seen) bool { return s.Acked >= want }); err != nil {
		return err
	}
	// leader run does not report that it stands for election, and every worker runs jobs.
	if r.Workload.Kind == scenario.Commands || r.Workload.Kind == scenario.Jobs {
		return nil
	}
	_, err := r.rec.Find(ctx, "a standby", (*record.Seen).Standby)
	return err
}

// disturb runs the faults, the recovery and the final phase.
func (r *run) disturb(ctx context.Context) error {
	var err error
	if r.Random {
		err = r.in.Random(ctx)
	} else {
		err = r.in.Inject(ctx, r.Faults)
	}
	if err != nil {
		return err
	}
	r.recover(ctx)
	return r.finalPhase(ctx)
}

// finalPhase deposes the leader as an operator would and waits for it to keep trying, so that every
// run has a stale attempt. leader run then ends its child, as it should; there the program is
// stopped instead, and the child is not. Behind a carrier, a process that the child has left asks
// the guard. A worker with jobs is frozen inside a transaction of one, until others have run all
// that it ran.
func (r *run) finalPhase(ctx context.Context) error {
	var stale int
	r.rec.Look(func(s *record.Seen) { stale = s.Stale })
	f := scenario.Fault{Do: scenario.Depose, On: "leader", Until: scenario.NextLeader}
	switch r.Workload.Kind {
	case scenario.Commands:
		f.Do = scenario.Stop
		if r.Topology.Route == scenario.Carried {
			f.Then = scenario.Orphan
		}
	case scenario.Jobs:
		f = scenario.FrozenInside
		f.With = slices.Clone(f.With)
		f.With[0].Name = history.FinalPhase + f.With[0].String()
	}
	f.Name = history.FinalPhase + f.String()
	if err := r.in.Inject(ctx, []scenario.Fault{f}); err != nil {
		return err
	}
	if r.o.Unguarded { // nobody is refused
		return system.Sleep(ctx, recklessTime)
	}
	refused := func(s *record.Seen) bool { return s.Stale > stale }
	r.rec.Await(ctx, attemptTime, "an attempt of the deposed leader", refused)
	if r.Topology.Route == scenario.Carried { // the attempt was made before the fault had ended
		r.recover(ctx)
	}
	return ctx.Err()
}

// recover waits for new writes to each store. If there are none, the checker says so.
func (r *run) recover(ctx context.Context) {
	var acked int
	var before map[string]int
	r.rec.Look(func(s *record.Seen) { acked, before = s.Acked, maps.Clone(s.AckedIn) })
	limit := max(healTime, 2*time.Duration(r.Expect.Recover))
	written := func(s *record.Seen) bool { return s.Acked > acked+100 && s.WrittenSince(before) }
	r.rec.Await(ctx, limit, "writes after the last fault", written)
	if r.Workload.Kind != scenario.Commands && r.Workload.Kind != scenario.Jobs {
		r.rec.Await(ctx, limit, "a standby", func(s *record.Seen) bool { return s.Standby() != "" })
	}
}

// stopWorkers ends all workers at once, so that none takes over from another.
func (r *run) stopWorkers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	end := r.sys.Stop
	if r.Workload.Child == "ignore-term" {
		end = r.sys.Kill
	}
	return system.Each(r.Topology.WorkerNames(), func(w string) error { return end(ctx, w) })
}
