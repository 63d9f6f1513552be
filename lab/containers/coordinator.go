package containers

import (
	"context"

	"github.com/ringfence/ringfence/lab"
)

// ZooKeeperLeader is lab.System's. It waits while there is none.
func (s *System) ZooKeeperLeader(ctx context.Context) (string, error) {
	var all []lab.Server
	for _, name := range s.build.Topology.ZooKeeperNames() {
		all = append(all, lab.Server{Name: name, Address: s.settings.host(name)})
	}
	return lab.LeadingServer(ctx, all)
}

// Wipe is lab.System's: the containers are removed with everything that they hold, and made anew.
func (s *System) Wipe(ctx context.Context) error {
	all := s.build.Topology.ZooKeeperNames()
	if err := s.remove(ctx, all...); err != nil {
		return err
	}
	if err := s.up(ctx, all...); err != nil {
		return err
	}
	return s.allReady(ctx, all)
}
