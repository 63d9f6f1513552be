package lab

import (
	"context"
	"fmt"
	"slices"
)

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
	case "workers":
		return r.Topology.WorkerNames(), nil
	case "zookeeper leader", "zookeeper follower", "zookeeper majority", "zookeeper":
		return r.zooKeepers(ctx, on)
	}
	return []string{on}, nil
}

func (r *run) zooKeepers(ctx context.Context, on string) ([]string, error) {
	all := r.Topology.ZooKeeperNames()
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
