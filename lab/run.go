package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/ringfence/ringfence/lab/history"
)

// Options are how a scenario is run.
type Options struct {
	Build     func(ctx context.Context, b Build) (System, error)
	Injector  Injector
	Programs  Programs
	Dir       string        // of this run; history.jsonl and the logs go there
	Seed      uint64        // of what is drawn
	Time      time.Duration // how long a random scenario goes on
	Session   time.Duration // session timeout at the coordinator, LongestSession at most; the scenario's when zero
	Unguarded bool          // the workers go round the guard, without tokens
	Control   string        // which bug is seeded, for the header
	Command   string        // that runs it again, for the header
	WarmUp    time.Duration // the most until the first writes; 40 s when zero
	Progress  func(text string)
}

const (
	buildTime = 3 * time.Minute  // containers are built from images that are there
	waitTime  = 40 * time.Second // for what a fault waits for
	healTime  = 20 * time.Second // for a new write once all is healed
	stopTime  = 30 * time.Second // for workers to end
	undoTime  = 60 * time.Second // to end a fault, such as a server's start

	attemptTime  = 10 * time.Second        // for an attempt of a deposed leader; a guard that is seeded with a bug may refuse none
	recklessTime = 1500 * time.Millisecond // that a deposed leader goes on which nobody refuses
)

// Sessions that a run can have: what its faults and waits are made for.
const (
	ShortestSession = 600 * time.Millisecond
	LongestSession  = 15 * time.Second
)

// endless is how many rounds a task has that is not meant to end within a run.
const endless = 1 << 30

// HistoryFile is the name of a run's history in its directory.
const HistoryFile = "history.jsonl"

// run is one scenario under way.
type run struct {
	Scenario
	o   Options
	rec *recorder
	sys System
	rnd *rand.Rand

	mu     sync.Mutex
	down   map[string]bool   // workers that a fault has killed, and will start again
	faults int               // so far
	strays int               // attempts of the lab itself
	held   map[Action]func() // ends what goes on in the background
}

// Run carries a scenario out and leaves its history in o.Dir. An error says that it could not be carried out to its end:
// what was recorded until then is there, and cannot be valid.
func Run(ctx context.Context, s Scenario, o Options) (err error) {
	file, err := os.Create(filepath.Join(o.Dir, HistoryFile))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	s.Workload.Kind = cmp.Or(s.Workload.Kind, Ledger)
	s.Workload.Pause = cmp.Or(s.Workload.Pause, 5*time.Millisecond)
	s.Workload.Rounds = cmp.Or(s.Workload.Rounds, endless)
	s.Topology.Route = cmp.Or(s.Topology.Route, Guarded)
	if o.Session > 0 {
		s.setSession(o.Session)
	}
	if o.Unguarded {
		s.unguard()
	}
	r := &run{Scenario: s, o: o, rec: newRecorder(history.NewWriter(file)), rnd: rand.New(rand.NewPCG(o.Seed, 1)),
		down: map[string]bool{}, held: map[Action]func(){}}
	r.rec.add(history.Event{Kind: history.Run, Header: r.header()})
	if err := r.carryOut(ctx); err != nil {
		r.note("lab", "the run was not carried out: "+err.Error())
		return errors.Join(err, r.rec.out.Err())
	}
	r.rec.add(history.Event{Kind: history.End})
	return r.rec.out.Err()
}

func (r *run) header() *history.Header {
	return &history.Header{
		Scenario: r.Name, About: r.About, Seed: r.o.Seed, Command: r.o.Command, Guarded: !r.o.Unguarded,
		Control: r.o.Control, Injector: string(r.o.Injector), Started: time.Now().UTC().Truncate(time.Millisecond),
		Session: history.Duration(r.Topology.Session), Expect: r.Expect,
	}
}

func (r *run) carryOut(ctx context.Context) (err error) {
	if err := r.build(ctx); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			r.progress("%s", r.sys.Diagnose())
		}
		err = errors.Join(err, r.sys.Close())
	}()
	err = r.supervised(ctx, func() error {
		if err := r.warmUp(ctx); err != nil {
			return err
		}
		return r.disturb(ctx)
	})
	return errors.Join(err, r.stopWorkers(ctx), r.collect(ctx))
}

// supervised starts workers again that end by themselves, for as long as do takes.
func (r *run) supervised(ctx context.Context, do func() error) error {
	ctx, stop := context.WithCancel(ctx)
	var supervisor sync.WaitGroup
	supervisor.Go(func() { r.supervise(ctx) })
	defer supervisor.Wait()
	defer stop()
	return do()
}

func (r *run) build(ctx context.Context) (err error) {
	r.progress("building the system: %d ZooKeeper, Postgres, Redis, %d guard, %d workers", r.Topology.ZooKeepers, r.Topology.Guards, r.Topology.Workers)
	bounded, cancel := context.WithTimeout(ctx, buildTime)
	defer cancel()
	r.sys, err = r.o.Build(bounded, Build{
		Topology: r.Topology, Workload: r.Workload, Seed: r.o.Seed, Dir: r.o.Dir, Programs: r.o.Programs, Events: r.rec.add,
	})
	if err != nil {
		return fmt.Errorf("the system could not be built: %w", err)
	}
	if err := r.placeWitness(bounded); err != nil {
		return errors.Join(err, r.sys.Close())
	}
	return nil
}

// warmUp starts the workers and waits until the load is there.
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
	if err := r.rec.wait(ctx, fmt.Sprintf("%d acknowledged writes before the first fault", want), func(s *seen) bool { return s.acked >= want }); err != nil {
		return err
	}
	if r.Workload.Kind == Commands { // leader run does not say that it stands for election
		return nil
	}
	return r.rec.wait(ctx, "a standby", func(s *seen) bool { return s.standby() != "" })
}

// disturb is the faults, the recovery and the coda.
func (r *run) disturb(ctx context.Context) error {
	var err error
	if r.Random {
		err = r.random(ctx)
	} else {
		err = r.inject(ctx, r.Faults)
	}
	if err != nil {
		return err
	}
	r.recover(ctx)
	return r.coda(ctx)
}

// coda takes the leader's term away once more and waits for it to try all the same, so that no run is without that: an
// operator deposes it. leader run then ends its child, as it should; so there the program is stopped and the child is not.
func (r *run) coda(ctx context.Context) error {
	var stale int
	r.rec.look(func(s *seen) { stale = s.stale })
	f := Fault{Do: Depose, On: "leader", Until: NextLeader}
	if r.Workload.Kind == Commands {
		f.Do = Stop
	}
	f.name = "coda: " + f.String()
	if err := r.inject(ctx, []Fault{f}); err != nil {
		return err
	}
	if r.o.Unguarded { // nobody is refused
		return pass(ctx, recklessTime)
	}
	r.await(ctx, attemptTime, "an attempt of the deposed leader", func(s *seen) bool { return s.stale > stale })
	return ctx.Err()
}

// recover waits for a new write. When none comes the checker says so.
func (r *run) recover(ctx context.Context) {
	var acked int
	r.rec.look(func(s *seen) { acked = s.acked })
	limit := max(healTime, 2*time.Duration(r.Expect.Recover))
	r.await(ctx, limit, "writes after the last fault", func(s *seen) bool { return s.acked > acked+100 })
	if r.Workload.Kind != Commands {
		r.await(ctx, limit, "a standby", func(s *seen) bool { return s.standby() != "" })
	}
}

// await waits for what may not come: that is for the checker to judge.
func (r *run) await(ctx context.Context, limit time.Duration, what string, holds func(*seen) bool) {
	bounded, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not within %v", limit))
	defer cancel()
	if err := r.rec.wait(bounded, what, holds); err != nil && ctx.Err() == nil {
		r.note("lab", err.Error())
		r.progress("%v", err)
	}
}

// supervise starts workers again that have ended by themselves.
func (r *run) supervise(ctx context.Context) {
	handled := map[string]int{}
	for {
		var again []string
		changed := r.rec.look(func(s *seen) {
			for w, n := range s.ended {
				if n > handled[w] {
					again = append(again, w)
				}
				handled[w] = n
			}
		})
		for _, w := range again {
			if err := r.startAgain(ctx, w); err != nil && ctx.Err() == nil {
				r.note("lab", fmt.Sprintf("%s could not be started again: %v", w, err))
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// startAgain leaves out whoever a fault has killed: that is started at its end. A fault that begins meanwhile waits, and then
// kills what was started: otherwise its end would find the worker running, which it takes for a failure.
func (r *run) startAgain(ctx context.Context, w string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.down[w] {
		return nil
	}
	return r.sys.Start(ctx, w)
}

func (r *run) setDown(w string, down bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down[w] = down
}

// stopWorkers ends them all at once, so that none takes over from another.
func (r *run) stopWorkers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	end := r.sys.Stop
	if r.Workload.Child == "ignore-term" {
		end = r.sys.Kill
	}
	return each(r.Topology.WorkerNames(), func(w string) error { return end(ctx, w) })
}

func (r *run) note(process, text string) {
	r.rec.add(history.Event{Kind: history.Note, Process: process, Text: text})
}

func (r *run) progress(format string, args ...any) {
	if r.o.Progress != nil {
		r.o.Progress(fmt.Sprintf(format, args...))
	}
}
