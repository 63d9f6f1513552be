package containers

import (
	"context"
	"errors"

	"github.com/moby/moby/client"

	"github.com/ringfence/ringfence/lab"
)

// ZooKeeperLeader is lab.System's. It waits while there is none.
func (s *System) ZooKeeperLeader(ctx context.Context) (string, error) {
	var all []lab.Server
	for _, name := range zooKeepers(s.build.Topology) {
		all = append(all, lab.Server{Name: name, Address: s.settings.host(name)})
	}
	return lab.LeadingServer(ctx, all)
}

// Wipe is lab.System's: the containers are removed with everything that they hold, and made anew.
func (s *System) Wipe(ctx context.Context) error {
	all := zooKeepers(s.build.Topology)
	for _, name := range all { // all are dead before the first is back, so that none keeps the data for the others
		if err := s.Kill(ctx, name); err != nil {
			return err
		}
	}
	var errs error
	for _, name := range all {
		_, err := s.docker.ContainerRemove(ctx, s.id(name), client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		errs = errors.Join(errs, err)
	}
	if errs != nil {
		return errs
	}
	if err := s.up(ctx, all...); err != nil {
		return err
	}
	return s.allReady(ctx, all)
}
