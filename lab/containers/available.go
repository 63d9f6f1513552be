package containers

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"github.com/moby/moby/client"
)

// askTime bounds the check for an engine and a compose program.
const askTime = 10 * time.Second

// Available returns why a system of containers cannot be built on this machine; nil if it can.
func Available(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	docker, err := dial(ctx)
	if err != nil {
		return err
	}
	defer docker.Close()
	_, err = findCompose(ctx)
	return err
}

// dial connects to the engine that the environment names, or to that of this machine.
func dial(ctx context.Context) (*client.Client, error) {
	docker, err := client.New(client.FromEnv)
	if err != nil {
		return nil, fmt.Errorf("the settings of the Docker client: %w", err)
	}
	if _, err := docker.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true}); err != nil {
		return nil, errors.Join(fmt.Errorf("no Docker engine answers: %w", err), docker.Close())
	}
	return docker, nil
}

// findCompose finds the compose program: the plugin of docker, or docker-compose.
func findCompose(ctx context.Context) ([]string, error) {
	for _, program := range [][]string{{"docker", "compose"}, {"docker-compose"}} {
		ask := append(program[1:len(program):len(program)], "version")
		if err := exec.CommandContext(ctx, program[0], ask...).Run(); err == nil {
			return program, nil
		}
	}
	return nil, errors.New("neither `docker compose` nor docker-compose is installed")
}
