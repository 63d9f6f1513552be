package containers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/moby/moby/client"
)

const (
	closeTime    = 90 * time.Second // to remove everything
	diagnoseTime = 10 * time.Second
)

// Diagnose is lab.System's.
func (s *System) Diagnose() string {
	ctx, cancel := context.WithTimeout(context.Background(), diagnoseTime)
	defer cancel()
	var b strings.Builder
	for _, name := range s.services() {
		said, err := s.said(ctx, s.id(name))
		if err != nil {
			said = "no log: " + err.Error()
		}
		fmt.Fprintf(&b, "%s:\n%s\n\n", name, lastLines(said, 12))
	}
	return b.String()
}

func (s *System) services() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.ids))
}

// Close is lab.System's: containers, networks and volumes of the project are removed, also paused ones. It may be called
// more than once.
func (s *System) Close() error {
	s.closing.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTime)
		defer cancel()
		s.closeErr = s.close(ctx)
	})
	return s.closeErr
}

func (s *System) close(ctx context.Context) error {
	s.followers.close()
	err := errors.Join(s.keepLogs(ctx), s.removeContainers(ctx))
	_, down := s.compose.run(ctx, "down", "-v", "--remove-orphans", "-t", "1")
	return errors.Join(err, down, s.docker.Close(), s.log.Close())
}

// keepLogs saves the end of each log in the run's directory.
func (s *System) keepLogs(ctx context.Context) error {
	var errs error
	for _, name := range s.services() {
		said, err := s.said(ctx, s.id(name))
		if err == nil {
			err = os.WriteFile(filepath.Join(s.build.Dir, name+".log"), []byte(said), 0o644)
		}
		errs = errors.Join(errs, err)
	}
	return errs
}

// removeContainers kills and removes what the project has, all at once. The compose program would do it one after the
// other, and not to paused ones.
func (s *System) removeContainers(ctx context.Context) error {
	found, err := s.docker.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: s.ours()})
	if err != nil {
		return err
	}
	errs := make([]error, len(found.Items))
	var all sync.WaitGroup
	for i, c := range found.Items {
		all.Go(func() {
			_, _ = s.docker.ContainerUnpause(ctx, c.ID, client.ContainerUnpauseOptions{}) // an error unless it is paused
			_, errs[i] = s.docker.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
