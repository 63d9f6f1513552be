package lab

import (
	"context"
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
	case "workers":
		return r.Topology.WorkerNames(), nil
	case "zookeeper leader", "zookeeper follower", "zookeeper majority", "zookeeper":
		return r.zooKeepers(ctx, on)
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

func (r *run) zooKeepers(ctx context.Context, on string) ([]string, error) {
	all := r.Topology.CoordinatorNames()
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
