package inject

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/lab/history"
	"github.com/ringfence/ringfence/lab/record"
	"github.com/ringfence/ringfence/lab/scenario"
	"github.com/ringfence/ringfence/lab/system"
)

// Inject injects faults one after the other. One that overlaps ends once the next one has begun.
func (r *Injector) Inject(ctx context.Context, all []scenario.Fault) error {
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
	*Injector
	scenario.Fault
	name    string
	targets []string
	before  record.Snapshot
}

// open begins a fault. If it fails, it ends whatever may have begun.
func (r *Injector) open(ctx context.Context, f scenario.Fault) (*activeFault, error) {
	if err := system.Sleep(ctx, f.After); err != nil {
		return nil, err
	}
	targets, err := r.resolve(ctx, f.On)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f, err)
	}
	r.faults++
	a := &activeFault{Injector: r, Fault: f, targets: targets, name: f.String()}
	if f.Name == "" {
		a.name = fmt.Sprintf("%s #%d", f, r.faults)
	}
	r.rec.Look(func(s *record.Seen) {
		a.before = s.Snapshot(targets)
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
	a.rec.Add(history.Event{
		Kind: history.Fault, Fault: a.name, State: s, Process: a.targets[0], Text: all,
	})
	a.rec.Progress("%s: %s (%s)", s, a.name, all)
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
	if err := a.Inject(ctx, a.inner(a.With)); err != nil {
		return err
	}
	if err := system.Sleep(ctx, a.For); err != nil {
		return err
	}
	switch a.Until {
	case scenario.NextLeader:
		a.rec.Await(ctx, waitTime, "the next leader's first writes", a.before.NextLeads)
	case scenario.GivenUp:
		a.rec.Await(ctx, waitTime, "the leader to give up its term", a.before.GivenUp)
	case scenario.Written:
		a.rec.Await(ctx, waitTime, "writes", a.before.Written)
	case scenario.HandedOver:
		a.rec.Await(ctx, waitTime, "the jobs to run again", a.before.HandedOver)
	case scenario.NextAssigner:
		a.rec.Await(ctx, waitTime, "another worker to assign jobs", a.before.NextAssigns)
	case scenario.Passed:
		a.rec.Await(ctx, waitTime, "terms above the last leader's", a.before.Passed)
	case scenario.Tried:
		a.rec.Await(ctx, waitTime, "the outcome of another worker's attempts", a.before.Tried)
	}
	return a.Inject(ctx, a.inner(a.Then))
}

// inner returns faults inside this one, with the first target of this one for SameTarget.
func (a *activeFault) inner(all []scenario.Fault) []scenario.Fault {
	all = slices.Clone(all)
	for i, f := range all {
		if f.On == scenario.SameTarget {
			all[i].On = a.targets[0]
		}
	}
	return all
}

// begin begins the fault.
func (r *Injector) begin(ctx context.Context, f scenario.Fault, targets []string) error {
	switch f.Do {
	case scenario.Wipe:
		return r.sys.Wipe(ctx)
	case scenario.Depose:
		return r.depose(ctx)
	case scenario.Revoke:
		return r.revoke(ctx)
	case scenario.Compact:
		return r.compact(ctx)
	case scenario.Lag:
		return r.lag(ctx)
	case scenario.Advance:
		return r.advance(ctx)
	case scenario.Promote:
		if scenario.StoreOf(f.On) == "postgres" {
			return r.cluster(func(c system.Cluster) error { return c.MakePrimary(ctx, f.On) })
		}
		return r.servers(func(s system.CoordinatorServers) error { return s.Promote(ctx) })
	case scenario.Backup:
		return r.backup(ctx, f.On)
	case scenario.Restore:
		return r.restore(ctx, f.On)
	case scenario.Reinstall:
		return r.reinstall(ctx)
	case scenario.SortAnew:
		return r.sortAnew(ctx)
	case scenario.SwitchOver:
		if f.On == "postgres" {
			return r.makeOther(ctx)
		}
		return r.switchOver(ctx)
	case scenario.Forget:
		return errors.Join(r.forgetMarks(ctx), r.sys.Kill(ctx, f.On))
	case scenario.Swap:
		return r.swap(ctx)
	case scenario.Reload:
		return r.reload(ctx)
	case scenario.Obstruct:
		return r.obstruct(ctx, f)
	case scenario.Crowd:
		return r.crowd(f)
	case scenario.Lock:
		return r.lockLedger(ctx, f)
	case scenario.Fork:
		return r.fork(ctx, f, targets[0])
	case scenario.Stay:
		return r.stay(ctx, f, targets[0])
	case scenario.Fill:
		return r.fill(ctx, f)
	case scenario.Spoil:
		return r.spoil(ctx, f.On)
	case scenario.Stray:
		return r.stray(ctx, f)
	case scenario.Adopt:
		return r.operate(ctx, "adopt", scenario.Resource)
	case scenario.Renew:
		return r.operate(ctx, "adopt", "--new-issuer", scenario.Resource)
	}
	return system.Each(targets, func(p string) error { return r.beginOn(ctx, f, p) })
}

func (r *Injector) beginOn(ctx context.Context, f scenario.Fault, p string) error {
	switch f.Do {
	case scenario.Pause:
		return r.sys.Pause(ctx, p)
	case scenario.Stop:
		return r.sys.Signal(ctx, p, syscall.SIGSTOP)
	case scenario.Kill:
		r.setDown(p, true)
		return r.sys.Kill(ctx, p)
	case scenario.Retire:
		return r.sys.Kill(ctx, p)
	case scenario.Restart:
		r.setDown(p, true)
		return r.sys.Stop(ctx, p)
	case scenario.Crash:
		return r.cluster(func(c system.Cluster) error { return c.Crash(ctx, p) })
	case scenario.Behead:
		return r.sys.Signal(ctx, p, syscall.SIGKILL)
	case scenario.Lose:
		return r.servers(func(s system.CoordinatorServers) error { return s.Lose(ctx, p) })
	case scenario.Break, scenario.Cut, scenario.Hold, scenario.Slow, scenario.LoseEnds:
		return r.sys.Shape(ctx, p, f.Link, shapeOf(f))
	case scenario.Inside:
		r.rec.Look(func(s *record.Seen) { delete(s.Inside, p) })
		if err := r.sys.Signal(ctx, p, syscall.SIGUSR1); err != nil {
			return err
		}
		stopped := func(s *record.Seen) bool { return s.Inside[p] }
		return r.rec.Wait(ctx, p+" is stopped inside a transaction", stopped)
	case scenario.Jump:
		return r.sys.Signal(ctx, p, syscall.SIGUSR2)
	case scenario.Turn:
		return r.sys.Turn(ctx, p, f.To)
	case scenario.Clog:
		return r.logs(func(l system.Logs) error { return l.Clog(ctx, p) })
	}
	return fmt.Errorf("no such action: %q", f.Do)
}

func shapeOf(f scenario.Fault) system.Shape {
	switch f.Do {
	case scenario.Break:
		return system.Shape{Break: true}
	case scenario.Cut:
		return system.Shape{HoldUp: true, HoldDown: true, Refuse: true}
	case scenario.Hold:
		return system.Shape{HoldUp: f.Direction != "down", HoldDown: f.Direction == "down"}
	}
	return system.Shape{Delay: f.Delay, Loss: f.Loss, LoseEnds: f.Do == scenario.LoseEnds}
}

// end undoes the fault, also if the run is being given up.
func (r *Injector) end(ctx context.Context, f scenario.Fault, targets []string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	return system.Each(targets, func(p string) error { return r.endOn(ctx, f, p) })
}

func (r *Injector) endOn(ctx context.Context, f scenario.Fault, p string) error {
	switch f.Do {
	case scenario.Pause:
		return r.sys.Resume(ctx, p)
	case scenario.Stop:
		return r.sys.Signal(ctx, p, syscall.SIGCONT)
	case scenario.Kill, scenario.Restart:
		defer r.setDown(p, false)
		return r.sys.Start(ctx, p)
	case scenario.Lose:
		return r.servers(func(s system.CoordinatorServers) error { return s.Rebuild(ctx, p) })
	case scenario.Break, scenario.Cut, scenario.Hold, scenario.Slow, scenario.LoseEnds:
		return r.sys.Shape(ctx, p, f.Link, system.Shape{})
	case scenario.Inside:
		return r.sys.Signal(ctx, p, syscall.SIGUSR2)
	case scenario.Turn:
		return r.sys.Turn(ctx, p, scenario.StoreOf(f.To))
	case scenario.Clog:
		return r.logs(func(l system.Logs) error { return l.Unclog(ctx, p) })
	case scenario.Forget:
		return r.sys.Start(ctx, p)
	case scenario.Swap:
		return r.swap(ctx)
	case scenario.Obstruct, scenario.Crowd, scenario.Lock, scenario.Stay, scenario.Fork, scenario.Fill:
		r.release(f)
	case scenario.Spoil:
		return r.arrive(ctx)
	}
	return nil
}

func (r *Injector) logs(do func(system.Logs) error) error {
	l, ok := r.sys.(system.Logs)
	if !ok {
		return errors.New("this injector does not read the logs of processes through pipes")
	}
	return do(l)
}

func (r *Injector) backup(ctx context.Context, what string) error {
	switch what {
	case scenario.OnlyMarks:
		return r.saveMarks(ctx)
	case "redis":
		return r.withRedis(func(db *driver.Client) error { return db.Save(ctx).Err() })
	case "coordinator":
		return errors.Join(r.sys.Backup(ctx, what), r.burnSome(ctx))
	}
	return r.sys.Backup(ctx, what)
}

func (r *Injector) restore(ctx context.Context, what string) error {
	if what == scenario.OnlyMarks {
		return r.restoreMarks(ctx)
	}
	return r.sys.Restore(ctx, what)
}

// operate runs a command as an operator would, and records it.
func (r *Injector) operate(ctx context.Context, args ...string) error {
	out, err := r.sys.Operator(ctx, args...)
	r.rec.Note("operator", "guard "+strings.Join(args, " ")+": "+out)
	return err
}
