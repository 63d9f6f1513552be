package containers

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"path"

	"github.com/moby/moby/client"
)

// The directories with data in the images.
var (
	zooKeeperData = []string{"/data", "/datalog"}
	postgresData  = []string{"/var/lib/postgresql/data"}
)

// postmasterFile names the process that runs on a directory. A copy would name that of another.
const postmasterFile = "postmaster.pid"

// Backup implements lab.System.
func (s *System) Backup(ctx context.Context, server string) error {
	if server == "postgres" {
		return s.copyPostgres(ctx)
	}
	for _, name := range s.build.Topology.CoordinatorNames() {
		if err := s.copyOut(ctx, name, zooKeeperData); err != nil {
			return err
		}
	}
	return nil
}

// copyPostgres copies the disk of Postgres while its processes are paused.
func (s *System) copyPostgres(ctx context.Context) error {
	if err := s.Pause(ctx, "postgres"); err != nil {
		return err
	}
	err := s.copyOut(ctx, "postgres", postgresData)
	return errors.Join(err, s.Resume(context.WithoutCancel(ctx), "postgres"))
}

// copyOut keeps copies of directories of a container.
func (s *System) copyOut(ctx context.Context, name string, dirs []string) error {
	copies := map[string][]byte{}
	for _, dir := range dirs {
		found, err := s.docker.CopyFromContainer(ctx, s.id(name),
			client.CopyFromContainerOptions{SourcePath: dir})
		if err != nil {
			return err
		}
		copies[dir], err = withoutFile(postmasterFile, found.Content)
		if err := errors.Join(err, found.Content.Close()); err != nil {
			return err
		}
	}
	s.copies[name] = copies
	return nil
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

// copyIn puts the copies of one container into another, which must not run.
func (s *System) copyIn(ctx context.Context, from, to string) error {
	for dir, content := range s.copies[from] {
		_, err := s.docker.CopyToContainer(ctx, s.id(to), client.CopyToContainerOptions{
			DestinationPath: path.Dir(dir), Content: bytes.NewReader(content), CopyUIDGID: true,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Restore implements lab.System.
func (s *System) Restore(ctx context.Context, server string) error {
	if server == "postgres" {
		return s.restorePostgres(ctx)
	}
	return s.restoreZooKeeper(ctx)
}

// restorePostgres creates a new container, so that nothing is left that was written after the copy.
func (s *System) restorePostgres(ctx context.Context) error {
	if err := s.remove(ctx, "postgres"); err != nil {
		return err
	}
	return s.startFromCopy(ctx, "postgres")
}

// startFromCopy creates a Postgres and starts it on the copy of the first one's disk.
func (s *System) startFromCopy(ctx context.Context, name string) error {
	if err := s.make(ctx, name); err != nil {
		return err
	}
	if err := s.copyIn(ctx, "postgres", name); err != nil {
		return err
	}
	return s.Start(ctx, name)
}

// restoreZooKeeper needs no new containers: the servers were not restarted since, so they have
// written only to files that the copy has too.
func (s *System) restoreZooKeeper(ctx context.Context) error {
	all := s.build.Topology.CoordinatorNames()
	if err := s.killAll(ctx, all); err != nil {
		return err
	}
	for _, name := range all {
		if err := s.copyIn(ctx, name, name); err != nil {
			return err
		}
		if err := s.start(ctx, s.id(name)); err != nil {
			return err
		}
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
		err = errors.Join(err, removed)
	}
	return err
}
