package containers

import (
	"context"
	"fmt"
	"slices"

	"github.com/ringfence/ringfence/lab/scenario"
	"github.com/ringfence/ringfence/lab/system"
)

var _ system.CoordinatorServers = (*System)(nil)

// Lose implements system.CoordinatorServers: it removes the container with its volumes.
func (s *System) Lose(ctx context.Context, server string) error {
	if err := s.isReplaceable(server); err != nil {
		return err
	}
	return s.remove(ctx, server)
}

// Rebuild implements system.CoordinatorServers. The new container has the name and the addresses of
// the old one.
func (s *System) Rebuild(ctx context.Context, server string) error {
	if err := s.isReplaceable(server); err != nil {
		return err
	}
	s.making.Lock()
	defer s.making.Unlock()
	if err := s.admit(ctx, server); err != nil {
		return err
	}
	if err := s.up(ctx, server); err != nil {
		return err
	}
	return s.allReady(ctx, []string{server})
}

// admit makes the other servers accept an empty one, if the coordinator needs that.
func (s *System) admit(ctx context.Context, server string) error {
	c, all := coordinatorOf(s.build.Topology), s.build.Topology.CoordinatorNames()
	if c.admit == nil {
		return nil
	}
	var others []string
	for _, name := range all {
		if name != server {
			others = append(others, s.settings.host(name))
		}
	}
	host := s.settings.coordinatorHost(c, slices.Index(all, server))
	if err := c.admit(ctx, others, host); err != nil {
		return err
	}
	s.changes.joins[server] = true
	return s.writeOverlay()
}

// foundAgain makes the next containers of the coordinator found a cluster, and join none.
func (s *System) foundAgain() error {
	s.making.Lock()
	defer s.making.Unlock()
	clear(s.changes.joins)
	return s.writeOverlay()
}

func (s *System) isReplaceable(server string) error {
	t := s.build.Topology
	all := t.CoordinatorNames()
	if t.Elections == scenario.InPostgres || len(all) < 2 || !slices.Contains(all, server) {
		return fmt.Errorf("%s is not one of several servers of the coordinator", server)
	}
	return nil
}
