package containers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/moby/moby/client"
)

// electionTime is how long ZooKeeperLeader waits where its context would let it wait longer.
const electionTime = 20 * time.Second

// ZooKeeperLeader is lab.System's. It waits while there is none.
func (s *System) ZooKeeperLeader(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, electionTime, fmt.Errorf("none within %v", electionTime))
	defer cancel()
	again := time.NewTicker(askAgain)
	defer again.Stop()
	for {
		for _, name := range zooKeepers(s.build.Topology) {
			if s.leads(ctx, name) {
				return name, nil
			}
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return "", fmt.Errorf("no server of the ensemble leads: %w", context.Cause(ctx))
		}
	}
}

// leads asks a server for its mode. One that does not answer soon, such as a paused one, does not count.
func (s *System) leads(ctx context.Context, name string) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	is, err := mode(ctx, s.settings.host(name))
	return err == nil && (is == "leader" || is == "standalone")
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
