package lab

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// resolve returns the processes that have a role now.
func (r *run) resolve(ctx context.Context, on string) ([]string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, waitTime, fmt.Errorf("not within %v", waitTime))
	defer cancel()
	switch on {
	case "leader", "guard of leader":
		leader, err := r.waitFor(ctx, "a leader", (*seen).leader)
		if on == "leader" {
			return []string{leader}, err
		}
		return []string{r.Topology.GuardOf(leader)}, err
	case "standby":
		standby, err := r.waitFor(ctx, "a standby", (*seen).standby)
		return []string{standby}, err
	case "busy worker":
		busy, err := r.waitFor(ctx, "a worker with jobs", func(s *seen) string { return s.jobs.busiest() })
		return []string{busy}, err
	case "assigner":
		assigner, err := r.waitFor(ctx, "a worker that assigns jobs",
			func(s *seen) string { return s.jobs.assigner })
		return []string{assigner}, err
	case "workers":
		return r.Topology.WorkerNames(), nil
	case "coordinator leader", "coordinator follower", "coordinator majority", "coordinator":
		return r.coordinators(ctx, on)
	}
	return []string{on}, nil
}

// waitFor waits for a worker with a role.
func (r *run) waitFor(
	ctx context.Context, what string, find func(*seen) string,
) (worker string, err error) {
	err = r.rec.wait(ctx, what, func(s *seen) bool {
		worker = find(s)
		return worker != ""
	})
	return worker, err
}

func (r *run) coordinators(ctx context.Context, on string) ([]string, error) {
	all := r.Topology.CoordinatorNames()
	if on == "coordinator" {
		return all, nil
	}
	leader, err := r.sys.CoordinatorLeader(ctx)
	if err != nil {
		return nil, err
	}
	followers := slices.DeleteFunc(all, func(n string) bool { return n == leader })
	if on == "coordinator follower" && len(followers) == 0 {
		return nil, errors.New("the coordinator is one server: it has no follower")
	}
	switch on {
	case "coordinator leader":
		return []string{leader}, nil
	case "coordinator follower":
		return followers[:1], nil
	}
	return append([]string{leader}, followers[:len(followers)/2]...), nil
}
