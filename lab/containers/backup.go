package containers

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"path"
	"slices"

	"github.com/moby/moby/client"
)

// postgresData are the directories with data in the images of Postgres.
var postgresData = []string{"/var/lib/postgresql/data"}

// postmasterFile names the process that runs on a directory. A copy would name that of another.
const postmasterFile = "postmaster.pid"

// diskCopy has a tar archive of each directory.
type diskCopy map[string][]byte

// disks are the data of a server, or of all servers of the coordinator.
type disks struct {
	servers []string
	dirs    []string
	live    bool // they may be copied while the servers run
}

func (s *System) disksOf(server string) disks {
	if server == "postgres" {
		return disks{servers: []string{server}, dirs: postgresData}
	}
	c := coordinatorOf(s.build.Topology)
	return disks{s.build.Topology.CoordinatorNames(), c.data, c.live}
}

// Backup implements system.System. Servers that must not be copied while they run are all paused
// before the first one is copied.
func (s *System) Backup(ctx context.Context, server string) error {
	all, err := s.copyOut(ctx, s.disksOf(server))
	maps.Copy(s.copies, all)
	return err
}

// copyOut copies the disks of servers.
func (s *System) copyOut(ctx context.Context, d disks) (all map[string]diskCopy, err error) {
	if !d.live {
		for _, name := range d.servers {
			if err := s.Pause(ctx, name); err != nil {
				return nil, err
			}
			defer func() { err = errors.Join(err, s.Resume(context.WithoutCancel(ctx), name)) }()
		}
	}
	all = map[string]diskCopy{}
	for _, name := range d.servers {
		if all[name], err = s.copyDirs(ctx, name, d.dirs); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// copyDirs copies directories of a container.
func (s *System) copyDirs(ctx context.Context, name string, dirs []string) (diskCopy, error) {
	copies := diskCopy{}
	for _, dir := range dirs {
		found, err := s.docker.CopyFromContainer(ctx, s.id(name),
			client.CopyFromContainerOptions{SourcePath: dir})
		if err != nil {
			return nil, err
		}
		copies[dir], err = withoutFile(postmasterFile, found.Content)
		if err := errors.Join(err, found.Content.Close()); err != nil {
			return nil, err
		}
	}
	return copies, nil
}

// withoutFile reads an archive and leaves out the file of a name.
func withoutFile(name string, archive io.Reader) ([]byte, error) {
	var rest bytes.Buffer
	from, to := tar.NewReader(archive), tar.NewWriter(&rest)
	for {
		header, err := from.Next()
		if errors.Is(err, io.EOF) {
			return rest.Bytes(), to.Close()
		}
		if err != nil {
			return nil, err
		}
		if path.Base(header.Name) == name {
			continue
		}
		if err := to.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := io.Copy(to, from); err != nil {
			return nil, err
		}
	}
}

// copyIn puts a copy into a container, which must not run.
func (s *System) copyIn(ctx context.Context, from diskCopy, to string) error {
	for dir, content := range from {
		_, err := s.docker.CopyToContainer(ctx, s.id(to), client.CopyToContainerOptions{
			DestinationPath: path.Dir(dir), Content: bytes.NewReader(content), CopyUIDGID: true,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Restore implements system.System. It creates new containers, so that nothing is left that was
// written after the copy.
func (s *System) Restore(ctx context.Context, server string) error {
	all, copies := s.disksOf(server).servers, map[string]diskCopy{}
	if err := s.remove(ctx, all...); err != nil {
		return err
	}
	for _, name := range all {
		copies[name] = s.copies[name]
	}
	return s.startFrom(ctx, copies)
}

// startFrom creates servers, each with the copy of a disk, and starts them.
func (s *System) startFrom(ctx context.Context, copies map[string]diskCopy) error {
	all := slices.Sorted(maps.Keys(copies))
	if err := s.make(ctx, all...); err != nil {
		return err
	}
	for _, name := range all {
		if err := s.copyIn(ctx, copies[name], name); err != nil {
			return err
		}
	}
	// Not start: docker-compose 1.29 connects a container to its second network when it starts it.
	if err := s.up(ctx, all...); err != nil {
		return err
	}
	return s.allReady(ctx, all)
}

// killAll returns when all are dead, so that no live server can pass the data on.
func (s *System) killAll(ctx context.Context, all []string) (err error) {
	for _, name := range all {
		err = errors.Join(err, s.Kill(ctx, name))
	}
	return err
}

var removeAll = client.ContainerRemoveOptions{Force: true, RemoveVolumes: true}

// remove kills containers and removes them with their volumes.
func (s *System) remove(ctx context.Context, all ...string) error {
	err := s.killAll(ctx, all)
	for _, name := range all {
		_, removed := s.docker.ContainerRemove(ctx, s.id(name), removeAll)
		if removed == nil {
			s.forget(name)
		}
		err = errors.Join(err, removed)
	}
	return err
}
