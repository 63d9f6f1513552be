package inject

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ringfence/ringfence/lab/record"
	"github.com/ringfence/ringfence/lab/scenario"
)

// resolve returns the processes that have a role now.
func (r *Injector) resolve(ctx context.Context, on string) ([]string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, waitTime, fmt.Errorf("not within %v", waitTime))
	defer cancel()
	switch on {
	case "leader", "guard of leader", "agent of leader":
		leader, err := r.rec.Find(ctx, "a leader", (*record.Seen).Leader)
		switch on {
		case "leader":
			return []string{leader}, err
		case "agent of leader":
			return []string{scenario.AgentOf(leader)}, err
		}
		return []string{r.Topology.GuardOf(leader)}, err
	case "standby":
		standby, err := r.rec.Find(ctx, "a standby", (*record.Seen).Standby)
		return []string{standby}, err
	case "busy worker":
		busy, err := r.rec.Find(ctx, "a worker with jobs", func(s *record.Seen) string {
			return s.Jobs.Busiest()
		})
		return []string{busy}, err
	case "assigner":
		assigner, err := r.rec.Find(ctx, "a worker that assigns jobs",
			func(s *record.Seen) string { return s.Jobs.Assigner })
		return []string{assigner}, err
	case "workers":
		return r.Topology.WorkerNames(), nil
	case "primary":
		primary, err := r.primary(ctx)
		return []string{primary}, err
	case "coordinator leader", "coordinator follower", "coordinator majority", "coordinator":
		return r.coordinators(ctx, on)
	}
	return []string{on}, nil
}

func (r *Injector) coordinators(ctx context.Context, on string) ([]string, error) {
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
