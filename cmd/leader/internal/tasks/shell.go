package tasks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/unfinished"
	"github.com/ringfence/ringfence/cmd/leader/internal/environ"
	"github.com/ringfence/ringfence/cmd/leader/internal/supervise"
	"github.com/ringfence/ringfence/fence"
)

// shellStep is a command that the shell runs.
type shellStep struct {
	*taskRun
	script  string
	timeout time.Duration
}

// run is the step's Run.
func (s shellStep) run(
	ctx context.Context, state json.RawMessage, key checkpoint.Key,
) (json.RawMessage, error) {
	e, err := s.execute(ctx, state, key)
	if err != nil {
		return nil, err
	}
	if e.code != 0 {
		return nil, e.failure
	}
	return e.state()
}

// ask is the step's Ask: exit code 0 means that the step has ended, 1 that it has to run again.
func (s shellStep) ask(
	ctx context.Context, state json.RawMessage, key checkpoint.Key,
) (unfinished.Decision, json.RawMessage, error) {
	e, err := s.execute(ctx, state, key)
	if err != nil {
		return unfinished.Stop, nil, err
	}
	switch e.code {
	case 0:
		after, err := e.state()
		return unfinished.Finished, after, err
	case 1:
		return unfinished.RunAgain, state, nil
	}
	return unfinished.Stop, state, fmt.Errorf("ask does not know: %w", e.failure)
}

// execution is how one run of the command ended.
type execution struct {
	code    int
	failure error  // says how, if the code is not 0
	after   []byte // the state file afterwards
	failed  error  // why the file could not be read
}

func (e execution) state() (json.RawMessage, error) {
	if e.failed != nil {
		return nil, fmt.Errorf("the command has succeeded, but its state file cannot be read: %w",
			e.failed)
	}
	return newState(e.after)
}

// execute runs the command until it has ended by itself. If the supervisor stops it because of the
// term, the step has not failed: execute runs it again when the coordinator is back in time. When
// the term is lost, ctx ends.
func (s shellStep) execute(
	ctx context.Context, state json.RawMessage, key checkpoint.Key,
) (e execution, err error) {
	ctx, stop := withTimeout(ctx, s.timeout)
	defer stop()
	dir, err := os.MkdirTemp("", "ringfence-")
	if err != nil {
		return e, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "state.json")
	for {
		if err := os.WriteFile(file, state, 0o600); err != nil {
			return e, err
		}
		e, err = s.attempt(ctx, state, file, key)
		if err == nil {
			e.after, e.failed = readState(file)
			return e, nil
		}
		if !errors.Is(err, supervise.ErrDisconnected) && !errors.Is(err, supervise.ErrOutOfTime) &&
			!errors.Is(err, fence.ErrLost) {
			return e, err
		}
		if err := s.wait(ctx, 0); err != nil {
			return e, err
		}
	}
}

// attempt starts the command and waits until its process group is gone. err is the reason why it
// was stopped, or could not be started.
func (s shellStep) attempt(
	ctx context.Context, state []byte, file string, key checkpoint.Key,
) (e execution, err error) {
	term := s.elector.term()
	stderr := &supervise.Tail{Max: 1 << 10}
	child := &supervise.Child{Dir: s.dir()}
	env, err := s.environ(ctx, file, key)
	if err != nil {
		return e, err
	}
	err = child.Start([]string{"/bin/sh", "-e", "-c", s.script}, env, bytes.NewReader(state),
		s.stdout, io.MultiWriter(s.stderr, stderr))
	if err != nil {
		return e, fmt.Errorf("the command could not be started: %w", err)
	}
	s.Log.Debug("the command was started", "step", key.Step, "pid", child.Pid())
	if err := s.Supervisor(child, term, s.Log, stderr).Supervise(ctx); err != nil {
		return e, err
	}
	return execution{code: child.ExitCode(), failure: child.Failure(stderr.String())}, nil
}

// dir is where commands run: the directory of the task file. One that was handed in is on no disk
// of this machine, so its commands run where the worker does.
func (inv *Invocation) dir() string {
	if inv.Bundle != nil {
		return ""
	}
	return filepath.Dir(inv.Path)
}

// environ returns the command's environment.
func (s shellStep) environ(ctx context.Context, file string, key checkpoint.Key) ([]string, error) {
	env, err := s.Settings.Claims.Environ(ctx, s.Env, s.elector.term().Claim())
	return environ.With(env, [][2]string{
		{"RINGFENCE_TASK", string(key.Task)},
		{"RINGFENCE_RUN", strconv.FormatInt(key.Run, 10)},
		{"RINGFENCE_ROUND", strconv.FormatInt(key.Round, 10)},
		{"RINGFENCE_STEP", key.Step},
		{"RINGFENCE_KEY", key.String()},
		{"RINGFENCE_STATE", file},
	}), err
}

// readState reads the state file, which must be a regular file within the limit.
func readState(file string) ([]byte, error) {
	if about, err := os.Stat(file); err != nil || !about.Mode().IsRegular() {
		return nil, errors.Join(err, errors.New("it has to be a file"))
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, stateLimit+1))
	if err == nil && len(text) > stateLimit {
		err = fmt.Errorf("it has more than %d bytes", stateLimit)
	}
	return text, err
}
