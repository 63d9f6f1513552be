package lab

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"syscall"
	"time"

	"github.com/ringfence/ringfence/fence/zookeeper"
	"github.com/ringfence/ringfence/lab/history"
)

// inject does faults one after the other. One that overlaps is ended once the next one has begun.
func (r *run) inject(ctx context.Context, all []Fault) error {
	var open *lasting // an overlapping one
	for _, f := range all {
		for range max(1, f.Times) {
			l, err := r.open(ctx, f)
			err = errors.Join(err, open.close(ctx))
			if err == nil {
				err = l.within(ctx)
			}
			if open = l; err != nil || !f.Overlap {
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

// lasting is a fault that has begun.
type lasting struct {
	*run
	Fault
	name    string
	targets []string
	before  position
}

// open begins a fault. What may have begun is ended, also when open fails.
func (r *run) open(ctx context.Context, f Fault) (*lasting, error) {
	if err := pass(ctx, f.After); err != nil {
		return nil, err
	}
	targets, err := r.resolve(ctx, f.On)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f, err)
	}
	r.faults++
	l := &lasting{run: r, Fault: f, targets: targets, name: f.String()}
	if f.name == "" {
		l.name = fmt.Sprintf("%s #%d", f, r.faults)
	}
	r.rec.look(func(s *seen) { l.before = s.position() })
	l.mark(history.Begin)
	bounded, cancel := context.WithTimeout(ctx, undoTime)
	defer cancel()
	if err := r.begin(bounded, f, targets); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", f, err), l.close(ctx))
	}
	return l, nil
}

func (l *lasting) mark(s history.State) {
	all := strings.Join(l.targets, ", ")
	l.rec.add(history.Event{Kind: history.Fault, Fault: l.name, State: s, Process: l.targets[0], Text: all})
	l.progress("%s: %s (%s)", s, l.name, all)
}

// close ends it, also when the run is being given up. There may be nothing to close.
func (l *lasting) close(ctx context.Context) error {
	if l == nil {
		return nil
	}
	defer l.mark(history.Over)
	return l.end(ctx, l.Fault, l.targets)
}

// within is the time that it lasts.
func (l *lasting) within(ctx context.Context) error {
	if err := l.inject(ctx, l.With); err != nil {
		return err
	}
	if err := pass(ctx, l.For); err != nil {
		return err
	}
	switch l.Until {
	case NextLeader:
		l.await(ctx, waitTime, "the next leader's first writes", l.before.passed)
	case Written:
		l.await(ctx, waitTime, "writes", l.before.written)
	case Tried:
		l.await(ctx, waitTime, "what becomes of the attempts of another worker", l.before.tried)
	}
	return l.inject(ctx, l.Then)
}

// position is where the run stands, to tell later what has changed.
type position struct {
	leader string
	acked  int
	by     map[string]int // acknowledged, of each worker
}

func (s *seen) position() position {
	return position{leader: s.leader(), acked: s.acked, by: maps.Clone(s.ackedBy)}
}

// written tells that somebody has written.
func (p position) written(s *seen) bool { return s.acked > p.acked+20 }

// passed tells that another worker leads and has written.
func (p position) passed(s *seen) bool {
	now := s.leader()
	return now != "" && now != p.leader && s.ackedBy[now] > p.by[now]+5
}

// tried tells that another worker than the leader then has written, or has given up and stands.
func (p position) tried(s *seen) bool {
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

// pass lets time go by: the schedule of a scenario is a matter of time.
func pass(ctx context.Context, d time.Duration) error {
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

// String is the fault in words.
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

// begin does what the fault says.
func (r *run) begin(ctx context.Context, f Fault, targets []string) error {
	switch f.Do {
	case Wipe:
		return r.sys.Wipe(ctx)
	case Depose:
		return r.depose(ctx)
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
	case Obstruct:
		return r.obstruct(ctx, f)
	case Crowd:
		return r.crowd(f)
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
	case Restart:
		r.setDown(p, true)
		return r.sys.Stop(ctx, p)
	case Behead:
		return r.sys.Signal(ctx, p, syscall.SIGKILL)
	case Cut, Hold, Slow:
		return r.sys.Shape(ctx, p, f.Link, f.shape())
	case Inside:
		if err := r.sys.Signal(ctx, p, syscall.SIGUSR1); err != nil {
			return err
		}
		return r.rec.wait(ctx, p+" stands inside a transaction", func(s *seen) bool { return s.inside[p] })
	case Jump:
		return r.sys.Signal(ctx, p, syscall.SIGUSR2)
	case Turn:
		return r.sys.Turn(ctx, p, f.To)
	}
	return fmt.Errorf("no such action: %q", f.Do)
}

func (f Fault) shape() Shape {
	switch f.Do {
	case Cut:
		return Shape{HoldUp: true, HoldDown: true, Refuse: true}
	case Hold:
		return Shape{HoldUp: f.Direction != "down", HoldDown: f.Direction == "down"}
	}
	return Shape{Delay: f.Delay, Loss: f.Loss}
}

// end undoes it, also when the run is being given up.
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
	case Cut, Hold, Slow:
		return r.sys.Shape(ctx, p, f.Link, Shape{})
	case Inside:
		return r.sys.Signal(ctx, p, syscall.SIGUSR2)
	case Turn:
		return r.sys.Turn(ctx, p, StoreOf(f.To))
	case Forget:
		return r.sys.Start(ctx, p)
	case Swap:
		return r.swap(ctx)
	case Obstruct, Crowd:
		r.release(f)
	}
	return nil
}

// each does something with all targets at once, so that a majority is hit as one.
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

// marksAlone is the target of a backup of nothing but the marks in Postgres.
const marksAlone = "marks"

func (r *run) backup(ctx context.Context, what string) error {
	switch what {
	case marksAlone:
		return r.saveMarks(ctx)
	case "zookeeper":
		return errors.Join(r.sys.Backup(ctx, what), r.spend(ctx))
	}
	return r.sys.Backup(ctx, what)
}

func (r *run) restore(ctx context.Context, what string) error {
	if what == marksAlone {
		return r.restoreMarks(ctx)
	}
	return r.sys.Restore(ctx, what)
}

// operate is an operator's act.
func (r *run) operate(ctx context.Context, args ...string) error {
	out, err := r.sys.Operator(ctx, args...)
	r.note("operator", "guard "+strings.Join(args, " ")+": "+out)
	return err
}

// spent is how many terms of another election are won and given up after a backup, so that tokens given out later are
// above all that a restored coordinator gives out first.
const spent = 100

// spend lets the coordinator's counter go on.
func (r *run) spend(ctx context.Context) error {
	co, err := zookeeper.Open(ctx, r.sys.Addresses().Coordinator, zookeeper.Options{})
	if err != nil {
		return err
	}
	defer co.Close()
	for range spent {
		term, err := co.Campaign(ctx, "spent", "operator")
		if err != nil {
			return err
		}
		if err := term.Resign(ctx); err != nil {
			return err
		}
	}
	return nil
}

// depose deletes the candidacy of whoever leads, as leader resign does.
func (r *run) depose(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, waitTime, fmt.Errorf("not within %v", waitTime))
	defer cancel()
	co, err := zookeeper.Open(ctx, r.sys.Addresses().Coordinator, zookeeper.Options{})
	if err != nil {
		return err
	}
	defer co.Close()
	for { // until somebody leads: a whole system that has stood still for a session has no candidate for a moment
		queue, err := co.Candidates(ctx, Resource)
		if err != nil {
			return err
		}
		if len(queue) > 0 {
			if ok, err := co.Depose(ctx, Resource, queue[0].Token); ok || err != nil {
				return err
			}
		}
		if err := pass(ctx, lookAgain); err != nil {
			return fmt.Errorf("nobody leads: %w", err)
		}
	}
}
