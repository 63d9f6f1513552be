package local

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"

	"github.com/ringfence/ringfence/lab/scenario"
	"github.com/ringfence/ringfence/lab/system"
)

// on does something to a process, and names the process in the error.
func (s *System) on(ctx context.Context, name string, do func(process) error) error {
	p, ok := s.processes[name]
	if !ok {
		return fmt.Errorf("no process %q: there are %s", name,
			strings.Join(slices.Sorted(maps.Keys(s.processes)), ", "))
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", name, context.Cause(ctx))
	}
	if err := do(p); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// Kill implements system.System.
func (s *System) Kill(ctx context.Context, name string) error {
	return s.on(ctx, name, func(p process) error {
		s.expectEnd(name)
		return p.Kill()
	})
}

// Start implements system.System. A server of an ensemble answers once a majority runs.
func (s *System) Start(ctx context.Context, name string) error {
	return s.on(ctx, name, func(p process) error { return p.Start(ctx) })
}

// Stop implements system.System. A process that does not end within 20 s of SIGTERM is killed, and
// that is an error.
func (s *System) Stop(ctx context.Context, name string) error {
	return s.on(ctx, name, func(p process) error {
		s.expectEnd(name)
		return p.Stop()
	})
}

// expectEnd says that the lab is about to end a process, which may be a worker.
func (s *System) expectEnd(name string) {
	if w := s.workers[name]; w != nil {
		w.expectEnd()
	}
}

// Pause implements system.System.
func (s *System) Pause(ctx context.Context, name string) error {
	return s.onMachine(ctx, name, process.Pause)
}

// Resume implements system.System.
func (s *System) Resume(ctx context.Context, name string) error {
	return s.onMachine(ctx, name, process.Resume)
}

// onMachine does something to a process, and to the agent beside it.
func (s *System) onMachine(ctx context.Context, name string, do func(process) error) error {
	return system.Each(s.machine(name), func(p string) error { return s.on(ctx, p, do) })
}

// Signal implements system.System.
func (s *System) Signal(ctx context.Context, name string, sig syscall.Signal) error {
	return s.on(ctx, name, func(p process) error {
		pid := p.PID()
		if pid == 0 {
			return fmt.Errorf("it does not run, so it cannot get %v", sig)
		}
		return syscall.Kill(pid, sig)
	})
}

// Turn implements system.System.
func (s *System) Turn(_ context.Context, guard, server string) error {
	all, to := s.links[ends{guard, scenario.StoreOf(server)}], s.addressOf(server)
	if len(all) == 0 || to == "" {
		return fmt.Errorf(
			"no link of %s can lead to %s: Topology has StoreLinks, and Copy or Replica",
			guard, server)
	}
	for _, l := range all {
		l.Turn(to)
	}
	return nil
}

// addressOf returns where a database listens for guards; "" if there is none of that name.
func (s *System) addressOf(server string) string {
	if at, ok := s.processes[server].(interface{ Addr() string }); ok {
		return s.leg(at.Addr())
	}
	return ""
}

// SwitchOver implements system.System.
func (s *System) SwitchOver(ctx context.Context) error {
	if s.replica == nil {
		return errors.New("no replica of Redis was built: Topology.Replica is not set")
	}
	if s.sentinels != nil {
		return s.failOver(ctx)
	}
	from, to := s.redis.Addr(), s.replica.Addr()
	if err := system.FailOver(ctx, from, to, to); err != nil {
		return err
	}
	s.redis, s.replica = s.replica, s.redis
	for _, all := range s.links {
		for _, l := range all {
			if l.target() == s.leg(from) {
				l.Turn(s.leg(to))
			}
		}
	}
	return nil
}

// Shape implements system.System.
func (s *System) Shape(_ context.Context, name, peer string, shape system.Shape) error {
	all, ok := s.links[ends{name, peer}]
	if !ok {
		return fmt.Errorf("there is no link between %s and %s: workers have links to coordinator, "+
			"guard and journal, guards to the coordinator", name, peer)
	}
	for _, l := range all {
		l.Shape(shape)
	}
	return nil
}

// SortAnew implements system.Locale.
func (s *System) SortAnew(ctx context.Context) error { return s.pg.SortAnew(ctx) }

// Wipe implements system.System.
func (s *System) Wipe(ctx context.Context) error { return s.elects.wipe(ctx) }

// Backup implements system.System.
func (s *System) Backup(ctx context.Context, server string) error {
	if server == "postgres" {
		return s.pg.Backup(ctx)
	}
	return s.elects.backup(ctx)
}

// Restore implements system.System.
func (s *System) Restore(ctx context.Context, server string) error {
	if server == "postgres" {
		return s.pg.Restore(ctx)
	}
	return s.elects.restore(ctx)
}
