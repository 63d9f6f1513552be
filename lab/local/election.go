package local

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ringfence/ringfence/lab/system"
)

var _ system.CoordinatorServers = (*System)(nil)

// CoordinatorLeader implements system.System. It waits while there is none.
func (s *System) CoordinatorLeader(ctx context.Context) (string, error) {
	address, err := s.elects.leader(ctx)
	if err != nil {
		return "", err
	}
	return s.build.Topology.CoordinatorNames()[slices.Index(s.elects.addresses(), address)], nil
}

// Lose implements system.CoordinatorServers.
func (s *System) Lose(_ context.Context, server string) error {
	e, i, err := s.oneOfSeveral(server)
	if err != nil {
		return err
	}
	return e.lose(i)
}

// Rebuild implements system.CoordinatorServers.
func (s *System) Rebuild(ctx context.Context, server string) error {
	e, i, err := s.oneOfSeveral(server)
	if err != nil {
		return err
	}
	return e.rebuild(ctx, i)
}

func (s *System) oneOfSeveral(server string) (ensemble, int, error) {
	e, ok := s.elects.(ensemble)
	i := slices.Index(s.build.Topology.CoordinatorNames(), server)
	if !ok || i < 0 {
		return nil, 0, fmt.Errorf("%s is not one of several servers of the coordinator", server)
	}
	return e, i, nil
}

// Lag implements system.CoordinatorServers.
func (s *System) Lag(ctx context.Context) error {
	p, err := s.withStandby()
	if err != nil {
		return err
	}
	return p.lag(ctx)
}

// Promote implements system.CoordinatorServers.
func (s *System) Promote(ctx context.Context) error {
	p, err := s.withStandby()
	if err != nil {
		return err
	}
	return p.promote(ctx)
}

func (s *System) withStandby() (electionsDB, error) {
	p, ok := s.elects.(electionsDB)
	if !ok || p.standby == nil {
		return p, errors.New("the coordinator has no standby: Topology.Standby is for Postgres")
	}
	return p, nil
}
