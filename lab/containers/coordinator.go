package containers

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path"

	"github.com/moby/moby/client"

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
	errs := s.killAll(ctx, all)
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

// zooKeeperData are the directories that the image keeps data in.
var zooKeeperData = []string{"/data", "/datalog"}

// Backup is lab.System's.
func (s *System) Backup(ctx context.Context, _ string) error {
	copies := map[string]map[string][]byte{}
	for _, name := range s.build.Topology.ZooKeeperNames() {
		copies[name] = map[string][]byte{}
		for _, dir := range zooKeeperData {
			found, err := s.docker.CopyFromContainer(ctx, s.id(name), client.CopyFromContainerOptions{SourcePath: dir})
			if err != nil {
				return err
			}
			copies[name][dir], err = io.ReadAll(found.Content)
			if err := errors.Join(err, found.Content.Close()); err != nil {
				return err
			}
		}
	}
	s.copies = copies
	return nil
}

// Restore is lab.System's. What the servers have written since is in files that the copy has too, for they were not
// started anew.
func (s *System) Restore(ctx context.Context, _ string) error {
	all := s.build.Topology.ZooKeeperNames()
	if err := s.killAll(ctx, all); err != nil {
		return err
	}
	for _, name := range all {
		for dir, content := range s.copies[name] {
			_, err := s.docker.CopyToContainer(ctx, s.id(name), client.CopyToContainerOptions{
				DestinationPath: path.Dir(dir), Content: bytes.NewReader(content), CopyUIDGID: true,
			})
			if err != nil {
				return err
			}
		}
		if err := s.start(ctx, s.id(name)); err != nil {
			return err
		}
	}
	return s.allReady(ctx, all)
}

// killAll returns when all are dead, so that none keeps the data for the others.
func (s *System) killAll(ctx context.Context, all []string) (err error) {
	for _, name := range all {
		err = errors.Join(err, s.Kill(ctx, name))
	}
	return err
}

// Turn is lab.System's.
func (s *System) Turn(context.Context, string, string) error { return errors.ErrUnsupported }

// SwitchOver is lab.System's.
func (s *System) SwitchOver(context.Context) error { return errors.ErrUnsupported }
