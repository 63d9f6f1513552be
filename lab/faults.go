package lab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/zookeeper"
	"github.com/ringfence/ringfence/lab/history"
)

// inject does faults one after the other.
func (r *run) inject(ctx context.Context, all []Fault) error {
	for _, f := range all {
		for range max(1, f.Times) {
			if err := r.once(ctx, f); err != nil {
				return err
			}
		}
	}
	return nil
}

// once does one fault from its begin to its end. What has begun is always ended.
func (r *run) once(ctx context.Context, f Fault) (err error) {
	if err := pass(ctx, f.After); err != nil {
		return err
	}
	targets, err := r.resolve(ctx, f.On)
	if err != nil {
		return fmt.Errorf("%s: %w", f, err)
	}
	r.faults++
	name := f.String()
	if f.name == "" {
		name = fmt.Sprintf("%s #%d", f, r.faults)
	}
	mark := func(s history.State) {
		r.rec.add(history.Event{Kind: history.Fault, Fault: name, State: s, Process: targets[0], Text: strings.Join(targets, ", ")})
		r.progress("%s: %s (%s)", s, name, strings.Join(targets, ", "))
	}
	var before position
	r.rec.look(func(s *seen) { before = s.position() })
	mark(history.Begin)
	defer mark(history.Over)
	bounded, cancel := context.WithTimeout(ctx, undoTime)
	defer cancel()
	if err := r.begin(bounded, f, targets); err != nil {
		return errors.Join(fmt.Errorf("%s: %w", f, err), r.end(ctx, f, targets))
	}
	err = r.within(ctx, f, before)
	return errors.Join(err, r.end(ctx, f, targets))
}

// within is the time that a fault lasts.
func (r *run) within(ctx context.Context, f Fault, before position) error {
	if err := r.inject(ctx, f.With); err != nil {
		return err
	}
	if err := pass(ctx, f.For); err != nil {
		return err
	}
	switch f.Until {
	case NextLeader:
		r.await(ctx, waitTime, "the next leader's first writes", before.passed)
	case Written:
		r.await(ctx, waitTime, "a write", func(s *seen) bool { return s.acked > before.acked })
	}
	return r.inject(ctx, f.Then)
}

// position is where the run stands, to tell later what has changed.
type position struct {
	leader string
	acked  int
	by     map[string]int
}

func (s *seen) position() position {
	by := map[string]int{}
	for w, n := range s.ackedBy {
		by[w] = n
	}
	return position{leader: s.leader(), acked: s.acked, by: by}
}

// passed tells that another worker leads and has written.
func (p position) passed(s *seen) bool {
	now := s.leader()
	return now != "" && now != p.leader && s.ackedBy[now] > p.by[now]+5
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

// resolve finds out who a role is now.
func (r *run) resolve(ctx context.Context, on string) ([]string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, waitTime, fmt.Errorf("not within %v", waitTime))
	defer cancel()
	switch on {
	case "leader", "guard of leader":
		var leader string
		if err := r.rec.wait(ctx, "a leader", func(s *seen) bool { leader = s.leader(); return leader != "" }); err != nil {
			return nil, err
		}
		if on == "leader" {
			return []string{leader}, nil
		}
		return []string{r.Topology.GuardOf(leader)}, nil
	case "standby":
		var standby string
		err := r.rec.wait(ctx, "a standby", func(s *seen) bool { standby = s.standby(); return standby != "" })
		return []string{standby}, err
	case "zookeeper leader", "zookeeper follower", "zookeeper majority", "zookeeper":
		return r.zooKeepers(ctx, on)
	}
	return []string{on}, nil
}

func (r *run) zooKeepers(ctx context.Context, on string) ([]string, error) {
	var all []string
	for i := range r.Topology.ZooKeepers {
		all = append(all, fmt.Sprintf("zookeeper-%d", i+1))
	}
	if on == "zookeeper" {
		return all, nil
	}
	leader, err := r.sys.ZooKeeperLeader(ctx)
	if err != nil {
		return nil, err
	}
	followers := slices.DeleteFunc(all, func(n string) bool { return n == leader })
	switch on {
	case "zookeeper leader":
		return []string{leader}, nil
	case "zookeeper follower":
		return followers[:1], nil
	}
	return append([]string{leader}, followers[:len(followers)/2]...), nil
}

// GuardOf is the guard that a worker talks to.
func (t Topology) GuardOf(worker string) string {
	n := 1
	_, _ = fmt.Sscanf(worker, "worker-%d", &n)
	return fmt.Sprintf("guard-%d", (n-1)%max(1, t.Guards)+1)
}

// begin does what the fault says.
func (r *run) begin(ctx context.Context, f Fault, targets []string) error {
	switch f.Do {
	case Wipe:
		return r.sys.Wipe(ctx)
	case Depose:
		return r.depose(ctx)
	case Adopt:
		out, err := r.sys.Operator(ctx, "adopt", Resource)
		r.note("operator", "guard adopt "+Resource+": "+out)
		return err
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
	case Kill:
		defer r.setDown(p, false)
		return r.sys.Start(ctx, p)
	case Cut, Hold, Slow:
		return r.sys.Shape(ctx, p, f.Link, Shape{})
	case Inside:
		return r.sys.Signal(ctx, p, syscall.SIGUSR2)
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

// depose deletes the candidacy of whoever leads, as leader resign does.
func (r *run) depose(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, waitTime)
	defer cancel()
	co, err := zookeeper.Open(ctx, r.sys.Addresses().Coordinator, zookeeper.Options{})
	if err != nil {
		return err
	}
	defer co.Close()
	queue, err := co.Candidates(ctx, fence.Resource(Resource))
	if err != nil {
		return err
	}
	if len(queue) == 0 {
		return errors.New("nobody leads")
	}
	_, err = co.Depose(ctx, fence.Resource(Resource), queue[0].Token)
	return err
}
