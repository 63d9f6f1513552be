package work

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"strings"

	"github.com/ringfence/ringfence/cmd/leader/internal/environ"
	"github.com/ringfence/ringfence/cmd/leader/internal/supervise"
	"github.com/ringfence/ringfence/jobs"
	"github.com/ringfence/ringfence/jobs/job"
)

// CommandKind is the kind of job that runs a command.
const CommandKind = "command"

var commandJobs = kind{
	handle: func(w *jobs.Worker, m *machine) { jobs.Handle(w, CommandKind, m.runCommand) },
	title:  titleOfCommand,
}

// Command is the payload of such a job.
type Command struct {
	Argv  []string        `json:"argv"`
	Env   []string        `json:"env,omitempty"`   // NAME=value, on top of the worker's
	Stdin json.RawMessage `json:"stdin,omitempty"` // JSON that the command reads
}

// CommandSpec makes a command the job of a spec.
func CommandSpec(spec job.Spec, c Command) (job.Spec, error) {
	if c.Stdin != nil && !json.Valid(c.Stdin) {
		return spec, errors.New("--stdin is not JSON")
	}
	payload, err := json.Marshal(c)
	spec.Kind, spec.Payload = CommandKind, payload
	return spec, errors.Join(err, spec.Check())
}

// runCommand is the handler of commands. Each runs in a process group of its own.
func (m *machine) runCommand(ctx context.Context, r *jobs.Run, cmd Command) (*Result, error) {
	if len(cmd.Argv) == 0 {
		return nil, jobs.Permanent(errors.New("the command is missing"))
	}
	if _, err := exec.LookPath(cmd.Argv[0]); err != nil {
		return nil, fmt.Errorf("find the command: %w", err) // another worker may have it
	}
	log := m.Log.With("job", string(r.ID), "token", r.Term.Token().String())
	for {
		result, failed, stopped := m.attempt(ctx, cmd, r, log)
		switch {
		case stopped == nil:
			return result, failed
		case !errors.Is(stopped, supervise.ErrDisconnected) &&
			!errors.Is(stopped, supervise.ErrOutOfTime):
			return result, stopped
		}
		// It was stopped in time because the coordinator was out of reach: the job has not failed.
		if err := r.Term.Wait(ctx); err != nil {
			return nil, err
		}
	}
}

// attempt runs the command until nothing of it is left. failed says how it has failed. stopped is
// why it was stopped, or could not be started.
func (m *machine) attempt(
	ctx context.Context, cmd Command, r *jobs.Run, log *slog.Logger,
) (_ *Result, failed, stopped error) {
	env, err := m.environ(ctx, cmd, r)
	if err != nil {
		return nil, err, nil
	}
	stdout, stderr := newTail(), newTail()
	showing(r, stdout, stderr)
	child := &supervise.Child{}
	err = child.Start(cmd.Argv, env, bytes.NewReader(cmd.Stdin), stdout, stderr)
	if err != nil {
		return &Result{}, nil, fmt.Errorf("the command could not be started: %w", err)
	}
	log.Info("the command of a job was started", "pid", child.Pid())
	s := m.Supervisor(child, r.Term, log, stderr)
	stopped = s.Supervise(ctx)
	result := &Result{child.ExitCode(), kept(stdout), kept(stderr)}
	if stopped == nil && result.Code != 0 {
		failed = child.Failure(result.Stderr)
	}
	if stopped == nil {
		log.Info("the command of a job has ended", "code", result.Code)
	}
	return result, failed, stopped
}

// environ returns the command's environment.
func (m *machine) environ(ctx context.Context, cmd Command, r *jobs.Run) ([]string, error) {
	env := m.Env
	for _, entry := range cmd.Env {
		name, value, _ := strings.Cut(entry, "=")
		env = environ.With(env, [][2]string{{name, value}})
	}
	env, err := m.Settings.Claims.Environ(ctx, env, r.Term.Claim())
	return environ.With(env, ofJob(r)), err
}

// titleOfCommand is the command.
func titleOfCommand(payload json.RawMessage) string {
	var c Command
	if json.Unmarshal(payload, &c) != nil {
		return ""
	}
	return title(c.Argv)
}
