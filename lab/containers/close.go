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

// Diagnose implements system.System.
func (s *System) Diagnose() string {
	ctx, cancel := context.WithTimeout(context.Background(), diagnoseTime)
	defer cancel()
	var b strings.Builder
	for _, name := range s.services() {
		log, err := s.logs(ctx, s.id(name))
		if err != nil {
			log = "no log: " + err.Error()
		}
		fmt.Fprintf(&b, "%s:\n%s\n\n", name, lastLines(log, 12))
	}
	return b.String()
}

func (s *System) services() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.ids))
}

// Close implements system.System. It removes the containers, also paused ones, the networks and the
// volumes of the project. It may be called more than once.
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
		log, err := s.logs(ctx, s.id(name))
		if err == nil {
			err = os.WriteFile(filepath.Join(s.build.Dir, name+".log"), []byte(log), 0o644)
		}
		errs = errors.Join(errs, err)
	}
	return errs
}

// removeContainers kills and removes the containers of the project at once. The compose program
// would remove one after the other, and no paused ones.
func (s *System) removeContainers(ctx context.Context) error {
	found, err := s.containers(ctx)
	errs := make([]error, len(found))
	var all sync.WaitGroup
	for i, c := range found {
		all.Go(func() {
			// It is an error unless the container is paused.
			_, _ = s.docker.ContainerUnpause(ctx, c.ID, client.ContainerUnpauseOptions{})
			_, errs[i] = s.docker.ContainerRemove(ctx, c.ID, removeAll)
		})
	}
	all.Wait()
	return errors.Join(append(errs, err)...)
}
