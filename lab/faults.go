package lab

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"time"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lab/history"
)

// inject injects faults one after the other. One that overlaps ends once the next one has begun.
func (r *run) inject(ctx context.Context, all []Fault) error {
	var open *activeFault // an overlapping one
	for _, f := range all {
		for range max(1, f.Times) {
			active, err := r.open(ctx, f)
			err = errors.Join(err, open.close(ctx))
			if err == nil {
				err = active.wait(ctx)
			}
			if open = active; err != nil || !f.Overlap {
				err = errors.Join(err, open.close(ctx))
				open = nil
			}
			if err != nil {
				return err
			}
		}
	}
	return open.close(ctx)
}

// activeFault is a fault that has begun.
type activeFault struct {
	*run
	Fault
	name    string
	targets []string
	before  snapshot
}

// open begins a fault. If it fails, it ends whatever may have begun.
func (r *run) open(ctx context.Context, f Fault) (*activeFault, error) {
	if err := sleep(ctx, f.After); err != nil {
		return nil, err
	}
	targets, err := r.resolve(ctx, f.On)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f, err)
	}
	r.faults++
	a := &activeFault{run: r, Fault: f, targets: targets, name: f.String()}
	if f.name == "" {
		a.name = fmt.Sprintf("%s #%d", f, r.faults)
	}
	r.rec.look(func(s *seen) {
		a.before = s.snapshot()
		a.before.held = s.jobs.heldBy(targets)
	})
	a.record(history.Begin)
	bounded, cancel := context.WithTimeout(ctx, undoTime)
	defer cancel()
	if err := r.begin(bounded, f, targets); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", f, err), a.close(ctx))
	}
	return a, nil
}

func (a *activeFault) record(s history.State) {
	all := strings.Join(a.targets, ", ")
	a.rec.add(history.Event{
		Kind: history.Fault, Fault: a.name, State: s, Process: a.targets[0], Text: all,
	})
	a.progress("%s: %s (%s)", s, a.name, all)
}

// close ends the fault, also if the run is being given up. It does nothing to nil.
func (a *activeFault) close(ctx context.Context) error {
	if a == nil {
		return nil
	}
	defer a.record(history.Over)
	return a.end(ctx, a.Fault, a.targets)
}

// wait injects the inner faults and waits for what the fault waits for.
func (a *activeFault) wait(ctx context.Context) error {
	if err := a.inject(ctx, a.inner(a.With)); err != nil {
		return err
	}
	if err := sleep(ctx, a.For); err != nil {
		return err
	}
	switch a.Until {
	case NextLeader:
		a.await(ctx, waitTime, "the next leader's first writes", a.before.nextLeads)
	case Written:
		a.await(ctx, waitTime, "writes", a.before.written)
	case HandedOver:
		a.await(ctx, waitTime, "the jobs to run again", a.before.handedOver)
	case NextAssigner:
		a.await(ctx, waitTime, "another worker to assign jobs", a.before.nextAssigns)
	case Passed:
		a.await(ctx, waitTime, "terms above the last leader's", a.before.passed)
	case Tried:
		a.await(ctx, waitTime, "the outcome of another worker's attempts", a.before.tried)
	}
	return a.inject(ctx, a.inner(a.Then))
}

// inner returns faults inside this one, with the first target of this one for SameTarget.
func (a *activeFault) inner(all []Fault) []Fault {
	all = slices.Clone(all)
	for i, f := range all {
		if f.On == SameTarget {
			all[i].On = a.targets[0]
		}
	}
	return all
}

// snapshot is the state of a run, to see later what has changed.
type snapshot struct {
	leader string
	terms  int // that became ready
	acked  int
	by     map[string]int // acknowledged, of each worker

	held     map[string]fence.Token // the jobs that the targets run, with their tokens
	assigner string
}

func (s *seen) snapshot() snapshot {
	return snapshot{
		leader: s.leader(), terms: len(s.terms), acked: s.acked, by: maps.Clone(s.ackedBy),
		assigner: s.jobs.assigner,
	}
}

// written reports whether somebody has written since.
func (p snapshot) written(s *seen) bool { return s.acked > p.acked+20 }

// nextLeads reports whether another worker leads and has written since.
func (p snapshot) nextLeads(s *seen) bool {
	now := s.leader()
	return now != "" && now != p.leader && s.ackedBy[now] > p.by[now]+5
}

// tried reports whether another worker than the leader of the snapshot has written since, or gave
// up and stands for election.
func (p snapshot) tried(s *seen) bool {
	for w, n := range s.ackedBy {
		if w != p.leader && n > p.by[w]+5 {
			return true
		}
	}
	for w := range s.standing {
		if w != p.leader {
			return true
		}
	}
	return false
}

// passed reports whether a few terms have passed the token of the last one that became ready, or another
// one has become ready.
func (p snapshot) passed(s *seen) bool { return s.above >= 3 || len(s.terms) > p.terms }

// handedOver reports whether each job that was run by the targets runs again and has written, or has
// ended.
func (p snapshot) handedOver(s *seen) bool {
	for job, token := range p.held {
		run := s.jobs.runs[job]
		again := run.token != token && run.acked > 0
		if !again && !s.jobs.done[job] {
			return false
		}
	}
	return true
}

// nextAssigns reports whether another worker assigns jobs.
func (p snapshot) nextAssigns(s *seen) bool {
	return s.jobs.assigner != "" && s.jobs.assigner != p.assigner
}

// sleep waits for the time that a scenario's schedule demands, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// String describes the fault.
func (f Fault) String() string {
	if f.name != "" {
		return f.name
	}
	text := fmt.Sprintf("%s %s", f.Do, f.On)
	if f.Link != "" {
		text += " from " + f.Link
	}
	if f.Direction != "" {
		text += " (" + f.Direction + ")"
	}
	return text
}

// begin begins the fault.
func (r *run) begin(ctx context.Context, f Fault, targets []string) error {
	switch f.Do {
	case Wipe:
		return r.sys.Wipe(ctx)
	case Depose:
		return r.depose(ctx)
	case Revoke:
		return r.revoke(ctx)
	case Compact:
		return r.compact(ctx)
	case Lag:
		return r.lag(ctx)
	case Advance:
		return r.advance(ctx)
	case Promote:
		return r.servers(func(s CoordinatorServers) error { return s.Promote(ctx) })
	case Backup:
		return r.backup(ctx, f.On)
	case Restore:
		return r.restore(ctx, f.On)
	case Reinstall:
		return r.reinstall(ctx)
	case SwitchOver:
		return r.sys.SwitchOver(ctx)
	case Forget:
		return errors.Join(r.forgetMarks(ctx), r.sys.Kill(ctx, f.On))
	case Swap:
		return r.swap(ctx)
	case Reload:
		return r.reload(ctx)
	case Obstruct:
		return r.obstruct(ctx, f)
	case Crowd:
		return r.crowd(f)
	case Lock:
		return r.lockLedger(ctx, f)
	case Spoil:
		return r.spoil(ctx, f.On)
	case Stray:
		return r.stray(ctx, f)
	case Adopt:
		return r.operate(ctx, "adopt", Resource)
	case Renew:
		return r.operate(ctx, "adopt", "--new-issuer", Resource)
	}
	return each(targets, func(p string) error { return r.beginOn(ctx, f, p) })
}

func (r *run) beginOn(ctx context.Context, f Fault, p string) error {
	switch f.Do {
	case Pause:
		return r.sys.Pause(ctx, p)
	case Stop:
		return r.sys.Signal(ctx, p, syscall.SIGSTOP)
	case Kill:
		r.setDown(p, true)
		return r.sys.Kill(ctx, p)
	case Retire:
		return r.sys.Kill(ctx, p)
	case Restart:
		r.setDown(p, true)
		return r.sys.Stop(ctx, p)
	case Behead:
		return r.sys.Signal(ctx, p, syscall.SIGKILL)
	case Lose:
		return r.servers(func(s CoordinatorServers) error { return s.Lose(ctx, p) })
	case Break, Cut, Hold, Slow, LoseEnds:
		return r.sys.Shape(ctx, p, f.Link, f.shape())
	case Inside:
		r.rec.look(func(s *seen) { delete(s.inside, p) })
		if err := r.sys.Signal(ctx, p, syscall.SIGUSR1); err != nil {
			return err
		}
		stopped := func(s *seen) bool { return s.inside[p] }
		return r.rec.wait(ctx, p+" is stopped inside a transaction", stopped)
	case Jump:
		return r.sys.Signal(ctx, p, syscall.SIGUSR2)
	case Turn:
		return r.sys.Turn(ctx, p, f.To)
	}
	return fmt.Errorf("no such action: %q", f.Do)
}

func (f Fault) shape() Shape {
	switch f.Do {
	case Break:
		return Shape{Break: true}
	case Cut:
		return Shape{HoldUp: true, HoldDown: true, Refuse: true}
	case Hold:
		return Shape{HoldUp: f.Direction != "down", HoldDown: f.Direction == "down"}
	}
	return Shape{Delay: f.Delay, Loss: f.Loss, LoseEnds: f.Do == LoseEnds}
}

// end undoes the fault, also if the run is being given up.
func (r *run) end(ctx context.Context, f Fault, targets []string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	return each(targets, func(p string) error { return r.endOn(ctx, f, p) })
}

func (r *run) endOn(ctx context.Context, f Fault, p string) error {
	switch f.Do {
	case Pause:
		return r.sys.Resume(ctx, p)
	case Stop:
		return r.sys.Signal(ctx, p, syscall.SIGCONT)
	case Kill, Restart:
		defer r.setDown(p, false)
		return r.sys.Start(ctx, p)
	case Lose:
		return r.servers(func(s CoordinatorServers) error { return s.Rebuild(ctx, p) })
	case Break, Cut, Hold, Slow, LoseEnds:
		return r.sys.Shape(ctx, p, f.Link, Shape{})
	case Inside:
		return r.sys.Signal(ctx, p, syscall.SIGUSR2)
	case Turn:
		return r.sys.Turn(ctx, p, StoreOf(f.To))
	case Forget:
		return r.sys.Start(ctx, p)
	case Swap:
		return r.swap(ctx)
	case Obstruct, Crowd, Lock:
		r.release(f)
	case Spoil:
		return r.arrive(ctx)
	}
	return nil
}

// each does something to all targets at once, so that a majority is hit together.
func each(targets []string, do func(string) error) error {
	errs := make(chan error)
	for _, p := range targets {
		go func() { errs <- do(p) }()
	}
	var all error
	for range targets {
		all = errors.Join(all, <-errs)
	}
	return all
}

// onlyMarks is the target of a backup of only the marks in Postgres.
const onlyMarks = "marks"

func (r *run) backup(ctx context.Context, what string) error {
	switch what {
	case onlyMarks:
		return r.saveMarks(ctx)
	case "redis":
		return r.withRedis(func(db *driver.Client) error { return db.Save(ctx).Err() })
	case "coordinator":
		return errors.Join(r.sys.Backup(ctx, what), r.burnSome(ctx))
	}
	return r.sys.Backup(ctx, what)
}

func (r *run) restore(ctx context.Context, what string) error {
	if what == onlyMarks {
		return r.restoreMarks(ctx)
	}
	return r.sys.Restore(ctx, what)
}

// operate runs a command as an operator would, and records it.
func (r *run) operate(ctx context.Context, args ...string) error {
	out, err := r.sys.Operator(ctx, args...)
	r.note("operator", "guard "+strings.Join(args, " ")+": "+out)
	return err
}
