package containers

import (
	"context"
	"fmt"
	"strings"
	"syscall"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"
)

// stopTime is how many seconds a container has between SIGTERM and SIGKILL.
const stopTime = 20

// on does something to the container of a process, and names the process in the error.
func (s *System) on(
	ctx context.Context, process string, do func(id string, state *container.State) error,
) error {
	id := s.id(process)
	if id == "" {
		return fmt.Errorf("no process %q: there are %s", process, strings.Join(s.services(), ", "))
	}
	now, err := s.docker.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	if err == nil {
		err = do(id, now.Container.State)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", process, err)
	}
	return nil
}

func (s *System) running(ctx context.Context, process string) (running bool, err error) {
	err = s.on(ctx, process, func(_ string, now *container.State) error {
		running = now.Running
		return nil
	})
	return running, err
}

// Pause implements system.System: the engine freezes all processes of the container.
func (s *System) Pause(ctx context.Context, process string) error {
	return s.on(ctx, process, func(id string, now *container.State) error {
		if now.Paused {
			return nil
		}
		_, err := s.docker.ContainerPause(ctx, id, client.ContainerPauseOptions{})
		return err
	})
}

// Resume implements system.System.
func (s *System) Resume(ctx context.Context, process string) error {
	return s.on(ctx, process, func(id string, now *container.State) error {
		if !now.Paused {
			return nil
		}
		_, err := s.docker.ContainerUnpause(ctx, id, client.ContainerUnpauseOptions{})
		return err
	})
}

// Signal implements system.System. SIGKILL to the first process of a container ends all of it.
func (s *System) Signal(ctx context.Context, process string, sig syscall.Signal) error {
	return s.on(ctx, process, func(id string, _ *container.State) error {
		return s.signal(ctx, id, sig)
	})
}

func (s *System) signal(ctx context.Context, id string, sig syscall.Signal) error {
	name := unix.SignalName(sig)
	_, err := s.docker.ContainerKill(ctx, id, client.ContainerKillOptions{Signal: name})
	return err
}

// Kill implements system.System. Before it returns, all output of a worker is reported.
func (s *System) Kill(ctx context.Context, process string) error {
	return s.end(ctx, process, func(id string) error { return s.signal(ctx, id, syscall.SIGKILL) })
}

// Stop implements system.System. A process that does not end in time is killed, and that is an
// error.
func (s *System) Stop(ctx context.Context, process string) error {
	return s.end(ctx, process, func(id string) error {
		limit := stopTime
		_, err := s.docker.ContainerStop(ctx, id, client.ContainerStopOptions{Timeout: &limit})
		if err != nil {
			return err
		}
		after, err := s.docker.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
		if err == nil && after.Container.State.ExitCode == 128+int(syscall.SIGKILL) {
			err = fmt.Errorf("it did not end within %d s of SIGTERM and was killed", stopTime)
		}
		return err
	})
}

// end ends a container and waits until it is gone and all its output is reported.
func (s *System) end(ctx context.Context, process string, how func(id string) error) error {
	return s.on(ctx, process, func(id string, now *container.State) error {
		s.followers.expectEnd(process)
		if now.Running {
			if err := how(id); err != nil {
				return err
			}
		}
		wait := s.docker.ContainerWait(ctx, id,
			client.ContainerWaitOptions{Condition: container.WaitConditionNotRunning})
		select {
		case <-wait.Result:
		case err := <-wait.Error:
			return err
		}
		return s.followers.wait(ctx, process)
	})
}

// Start implements system.System.
func (s *System) Start(ctx context.Context, process string) error {
	if strings.HasPrefix(process, "worker-") {
		return s.startWorker(ctx, process)
	}
	err := s.on(ctx, process, func(id string, _ *container.State) error { return s.start(ctx, id) })
	if err != nil {
		return err
	}
	if err := s.again(ctx, process, false); err != nil {
		return err
	}
	return s.allReady(ctx, []string{process})
}

func (s *System) startWorker(ctx context.Context, process string) error {
	if running, err := s.running(ctx, process); err != nil || running {
		return err
	}
	if err := s.followers.wait(ctx, process); err != nil {
		return err
	}
	made, err := s.withoutFailpoint(ctx, process)
	if err != nil {
		return err
	}
	err = s.on(ctx, process, func(id string, _ *container.State) error {
		if err := s.start(ctx, id); err != nil {
			return err
		}
		s.followers.follow(process, id)
		return nil
	})
	if err != nil {
		return err
	}
	return s.again(ctx, process, made)
}

// start does nothing to a running container.
func (s *System) start(ctx context.Context, id string) error {
	_, err := s.docker.ContainerStart(ctx, id, client.ContainerStartOptions{})
	return err
}

// withoutFailpoint recreates a worker without its failpoint, if it was started with it before.
func (s *System) withoutFailpoint(ctx context.Context, worker string) (made bool, err error) {
	if s.build.Workload.Failpoints[worker] == "" {
		return false, nil
	}
	s.making.Lock()
	defer s.making.Unlock()
	if !s.changes.failpointUsed[worker] {
		s.changes.failpointUsed[worker] = true
		return false, nil
	}
	if err := s.writeOverlay(); err != nil {
		return false, err
	}
	return true, s.makeWorker(ctx, worker)
}
