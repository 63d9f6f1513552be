package tasks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/pgjournal"
	"github.com/ringfence/ringfence/cmd/leader/internal/taskfile"
)

// task converts the file to a task of package checkpoint.
func (r *taskRun) task() checkpoint.Task[json.RawMessage] {
	f := r.File
	t := checkpoint.Task[json.RawMessage]{
		Name: f.Task, Rounds: f.Rounds, Start: f.State, Retry: f.Retry, OnStepsChanged: f.Changed,
		StateLimit: stateLimit, Notify: r.notify,
	}
	for _, s := range f.Steps {
		step := r.step(s)
		step.Retry, step.Unfinished = s.Retry, s.Unfinished
		t.Steps = append(t.Steps, step)
	}
	return t
}

// stateLimit is the maximum size of a state, in bytes.
const stateLimit = 1 << 20

// step converts one step of the file.
func (r *taskRun) step(s taskfile.Step) checkpoint.Step[json.RawMessage] {
	if s.SQL != nil {
		return pgjournal.Step(s.Name, sqlStep{taskRun: r, sql: s.SQL, at: s.At, timeout: s.Timeout}.run)
	}
	step := checkpoint.Step[json.RawMessage]{Name: s.Name}
	if s.Run != "" {
		step.Run = shellStep{taskRun: r, script: s.Run, timeout: s.Timeout}.run
	} else {
		step.Run = redisStep{taskRun: r, commands: s.Redis, timeout: s.Timeout}.run
	}
	if s.Ask != "" {
		step.Ask = shellStep{taskRun: r, script: s.Ask, timeout: s.Timeout}.ask
	}
	return step
}

// errTimeout is the cause with which a step's context ends at its timeout.
var errTimeout = errors.New("it had not ended after its timeout")

// withTimeout bounds a step in time; 0 is no bound.
func withTimeout(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if timeout == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, timeout, fmt.Errorf("%w of %s", errTimeout, timeout))
}

// withCause adds the cause with which ctx ended, if it did.
func withCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// newState checks that the state which a step returns is a JSON object.
func newState(text []byte) (json.RawMessage, error) {
	text = bytes.TrimSpace(text)
	var object map[string]json.RawMessage
	if err := json.Unmarshal(text, &object); err != nil || object == nil {
		return nil, fmt.Errorf("the new state is not a JSON object: %.80q", text)
	}
	return text, nil
}
