package containers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

// removeTime bounds the removal of a container after its work.
const removeTime = 20 * time.Second

// netfault runs a shell script in the network of a running process, with the right to change that
// network, and returns its output.
func (s *System) netfault(ctx context.Context, process, script string) (out string, err error) {
	made, err := s.docker.ContainerCreate(ctx, client.ContainerCreateOptions{
		Config: &container.Config{
			Image: "ringfence/netfault", Entrypoint: []string{"sh", "-c"}, Cmd: []string{script},
			Labels: map[string]string{projectLabel: s.settings.project},
		},
		HostConfig: &container.HostConfig{
			NetworkMode: container.NetworkMode("container:" + s.id(process)),
			CapAdd:      []string{"NET_ADMIN"},
		},
	})
	if err != nil {
		return "", err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTime)
		defer cancel()
		_, removed := s.docker.ContainerRemove(ctx, made.ID, removeAll)
		err = errors.Join(err, removed)
	}()
	wait := s.docker.ContainerWait(ctx, made.ID,
		client.ContainerWaitOptions{Condition: container.WaitConditionNextExit})
	if err := s.start(ctx, made.ID); err != nil {
		return "", err
	}
	select {
	case ended := <-wait.Result:
		out, err = s.logs(ctx, made.ID)
		if ended.StatusCode != 0 {
			err = errors.Join(err, fmt.Errorf("exit code %d", ended.StatusCode))
		}
		return out, err
	case err := <-wait.Error:
		return "", err
	}
}

// logs returns the last lines of a container's output.
func (s *System) logs(ctx context.Context, id string) (string, error) {
	stream, err := s.docker.ContainerLogs(ctx, id,
		client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true, Tail: "300"})
	if err != nil {
		return "", err
	}
	defer stream.Close()
	var text bytes.Buffer
	_, err = stdcopy.StdCopy(&text, &text, stream)
	return text.String(), err
}
