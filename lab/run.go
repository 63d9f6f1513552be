package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ringfence/ringfence/lab/history"
)

// Options say how a scenario is run.
type Options struct {
	Build     func(ctx context.Context, b Build) (System, error)
	Injector  Injector
	Programs  Programs
	Dir       string        // of this run, for history.jsonl and the logs
	Seed      uint64        // of random choices
	Time      time.Duration // how long a random scenario lasts
	Jobs      int           // the least number of jobs, in scenarios about them; 0: the scenario's
	Session   time.Duration // session timeout at the coordinator; 0: the scenario's
	Elections Elections     // which coordinator; ZooKeeper when empty
	TLS       bool          // on every leg of guards and workers
	Unguarded bool          // the workers bypass the guard, without tokens
	Control   string        // the seeded bug, for the header
	Command   string        // that repeats the run, for the header
	WarmUp    time.Duration // the limit until the first writes; 40 s when zero
	Progress  func(text string)
}

const (
	buildTime = 3 * time.Minute  // the images of containers exist by then
	waitTime  = 40 * time.Second // for what a fault waits for
	healTime  = 20 * time.Second // for a new write after all faults
	stopTime  = 30 * time.Second // for workers to end
	undoTime  = 60 * time.Second // to begin or end a fault, such as a server's start

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
	Scenario
	o   Options
	rec *recorder
	sys System
	rnd *rand.Rand

	mu     sync.Mutex
	down   map[string]bool   // workers that a fault has killed and will start again
	faults int               // so far
	strays int               // attempts of the lab itself
	held   map[Action]func() // each ends what hold began for an action
	late   *lateWrite        // of Spoil
}

// Run runs a scenario and leaves its history in o.Dir. An error says why the run was not completed.
// Its history then ends early and cannot be valid.
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
	s.Topology.Elections = cmp.Or(o.Elections, InZooKeeper)
	s.Topology.TLS = o.TLS
	if o.Session > 0 {
		s.setSession(o.Session)
	}
	if s.Workload.Kind == Jobs {
		s.Workload.Jobs = cmp.Or(o.Jobs, s.Workload.Jobs)
		s.Expect.Jobs = cmp.Or(s.Workload.Jobs, s.Expect.Jobs)
	}
	if o.Unguarded {
		s.unguard()
	}
	r := &run{
		Scenario: s, o: o, rec: newRecorder(history.NewWriter(file)),
		rnd:  rand.New(rand.NewPCG(o.Seed, 1)),
		down: map[string]bool{}, held: map[Action]func(){},
	}
	r.rec.add(history.Event{Kind: history.Run, Header: r.header()})
	if err := r.complete(ctx); err != nil {
		r.note("lab", "the run was not completed: "+err.Error())
		return errors.Join(err, r.rec.out.Err())
	}
	r.rec.add(history.Event{Kind: history.End})
	return r.rec.out.Err()
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
			r.progress("%s", r.sys.Diagnose())
		}
		err = errors.Join(err, r.sys.Close())
	}()
	err = r.supervised(ctx, func() error {
		if r.Workload.Kind == Jobs {
			return r.withJobs(ctx, r.scene)
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
	supervisor.Go(func() { r.supervise(ctx) })
	defer supervisor.Wait()
	defer stop()
	return do()
}

func (r *run) build(ctx context.Context) (err error) {
	t := r.Topology
	r.progress("building the system: %s, postgres, redis, %d guard, %d workers",
		strings.Join(t.CoordinatorNames(), ", "), t.Guards, t.Workers)
	bounded, cancel := context.WithTimeout(ctx, buildTime)
	defer cancel()
	r.sys, err = r.o.Build(bounded, Build{
		Topology: t, Workload: r.Workload, Seed: r.o.Seed, Dir: r.o.Dir, Programs: r.o.Programs,
		Events: r.rec.add,
	})
	if err != nil {
		return fmt.Errorf("the system could not be built: %w", err)
	}
	if err := r.prepareEvidence(bounded); err != nil {
		return errors.Join(err, r.sys.Close())
	}
	return nil
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
	if err := r.rec.wait(ctx, what, func(s *seen) bool { return s.acked >= want }); err != nil {
		return err
	}
	// leader run does not report that it stands for election, and every worker runs jobs.
	if r.Workload.Kind == Commands || r.Workload.Kind == Jobs {
		return nil
	}
	_, err := r.waitFor(ctx, "a standby", (*seen).standby)
	return err
}

// disturb runs the faults, the recovery and the final phase.
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
	return r.finalPhase(ctx)
}

// finalPhase deposes the leader as an operator would and waits for it to keep trying, so that every
// run has a stale attempt. leader run then ends its child, as it should; there the program is
// stopped instead, and the child is not. A worker with jobs is frozen inside a transaction of one,
// until others have run all that it ran.
func (r *run) finalPhase(ctx context.Context) error {
	var stale int
	r.rec.look(func(s *seen) { stale = s.stale })
	f := Fault{Do: Depose, On: "leader", Until: NextLeader}
	switch r.Workload.Kind {
	case Commands:
		f.Do = Stop
	case Jobs:
		f = frozenInside
		f.With = slices.Clone(f.With)
		f.With[0].name = history.FinalPhase + f.With[0].String()
	}
	f.name = history.FinalPhase + f.String()
	if err := r.inject(ctx, []Fault{f}); err != nil {
		return err
	}
	if r.o.Unguarded { // nobody is refused
		return sleep(ctx, recklessTime)
	}
	refused := func(s *seen) bool { return s.stale > stale }
	r.await(ctx, attemptTime, "an attempt of the deposed leader", refused)
	return ctx.Err()
}

// recover waits for new writes to each store. If there are none, the checker says so.
func (r *run) recover(ctx context.Context) {
	var acked int
	var before map[string]int
	r.rec.look(func(s *seen) { acked, before = s.acked, maps.Clone(s.ackedIn) })
	limit := max(healTime, 2*time.Duration(r.Expect.Recover))
	written := func(s *seen) bool { return s.acked > acked+100 && s.writtenSince(before) }
	r.await(ctx, limit, "writes after the last fault", written)
	if r.Workload.Kind != Commands && r.Workload.Kind != Jobs {
		r.await(ctx, limit, "a standby", func(s *seen) bool { return s.standby() != "" })
	}
}

// await waits for a condition that may never hold: the checker judges that.
func (r *run) await(
	ctx context.Context, limit time.Duration, what string, holds func(*seen) bool,
) {
	bounded, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not within %v", limit))
	defer cancel()
	if err := r.rec.wait(bounded, what, holds); err != nil && ctx.Err() == nil {
		r.note("lab", err.Error())
		r.progress("%v", err)
	}
}

// supervise restarts workers that have ended by themselves.
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

// startAgain leaves out a worker that a fault has killed: the end of the fault starts it. A fault
// that begins meanwhile waits, and then kills the worker that was started: otherwise the fault
// would find it running at its end, and fail.
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

// stopWorkers ends all workers at once, so that none takes over from another.
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
