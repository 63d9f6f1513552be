package containers

import (
	"context"

	"github.com/ringfence/ringfence/lab"
)

// CoordinatorLeader implements lab.System. It waits while there is none.
func (s *System) CoordinatorLeader(ctx context.Context) (string, error) {
	return lab.LeadingServer(ctx, s.build.Topology.CoordinatorNames(), s.settings.host)
}

// Wipe implements lab.System: it removes the containers with their volumes, and creates new ones.
func (s *System) Wipe(ctx context.Context) error {
	all := s.build.Topology.CoordinatorNames()
	if err := s.remove(ctx, all...); err != nil {
		return err
	}
	if err := s.up(ctx, all...); err != nil {
		return err
	}
	return s.allReady(ctx, all)
}
