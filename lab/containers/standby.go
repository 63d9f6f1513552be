package containers

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/ringfence/ringfence/lab/scenario"
	"github.com/ringfence/ringfence/lab/system"
)

// standby is the server that streams from the coordinator's primary (Topology.Standby).
const standby = "elections-2"

// primaries returns the servers of the coordinator that start without the disk of another one.
func primaries(t scenario.Topology) []string {
	return slices.DeleteFunc(t.CoordinatorNames(), func(name string) bool { return name == standby })
}

// startStandby starts the coordinator's standby, if there is one, from a copy of the primary's
// disk, and returns once it streams. The primary, which ignores primary_conninfo, has that setting
// for the copy. ALTER SYSTEM writes it, because Lag could not change it on the command line.
func (s *System) startStandby(ctx context.Context) error {
	if !s.build.Topology.Standby {
		return nil
	}
	primary := s.build.Topology.CoordinatorNames()[0]
	err := system.Exec(ctx, s.settings.postgresURL("postgres", primary), fmt.Sprintf(
		"alter system set primary_conninfo = 'host=%s user=postgres password=%s'",
		s.settings.coordinatorHost(coordinatorOf(s.build.Topology), 0), s.settings.password))
	if err != nil {
		return err
	}
	copies, err := s.copyOut(ctx, disks{servers: []string{primary}, dirs: postgresData})
	if err != nil {
		return err
	}
	disk := copies[primary]
	for dir, archive := range disk {
		if disk[dir], err = asStandby(archive); err != nil {
			return err
		}
	}
	if err := s.startFrom(ctx, map[string]diskCopy{standby: disk}); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, readyTime, fmt.Errorf("not within %v", readyTime))
	defer cancel()
	if err := system.AwaitStream(ctx, s.settings.postgresURL("postgres", standby)); err != nil {
		return fmt.Errorf("%s does not stream: %w", standby, errors.Join(context.Cause(ctx), err))
	}
	return nil
}

// asStandby adds the file to a copy of a Postgres's disk that makes its server a standby.
func asStandby(archive []byte) ([]byte, error) {
	top, err := tar.NewReader(bytes.NewReader(archive)).Next()
	if err != nil {
		return nil, err
	}
	var all bytes.Buffer
	w := tar.NewWriter(&all)
	err = w.WriteHeader(&tar.Header{
		Name: path.Join(top.Name, "standby.signal"), Mode: 0o600, Uid: top.Uid, Gid: top.Gid,
	})
	// The archive follows the file, with the mark of its end.
	err = errors.Join(err, w.Flush())
	all.Write(archive)
	return all.Bytes(), err
}

// Lag implements system.CoordinatorServers.
func (s *System) Lag(ctx context.Context) error {
	at, err := s.standbyURL()
	if err != nil {
		return err
	}
	return system.EndStream(ctx, at)
}

// Promote implements system.CoordinatorServers.
func (s *System) Promote(ctx context.Context) error {
	at, err := s.standbyURL()
	if err != nil {
		return err
	}
	return system.Exec(ctx, at, "select pg_promote()")
}

func (s *System) standbyURL() (string, error) {
	if !s.build.Topology.Standby {
		return "", errors.New("the coordinator has no standby: Topology.Standby is for Postgres")
	}
	return s.settings.postgresURL("postgres", standby), nil
}
