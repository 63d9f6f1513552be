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
	"strings"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/environ"
	"github.com/ringfence/ringfence/internal/supervise"
)

// shellStep is a command that is run by the shell.
type shellStep struct {
	*taskRun
	script  string
	timeout time.Duration
}

// run is checkpoint.Step's.
func (s shellStep) run(ctx context.Context, state json.RawMessage, key checkpoint.Key) (json.RawMessage, error) {
	e, err := s.execute(ctx, state, key)
	if err != nil {
		return nil, err
	}
	if e.code != 0 {
		return nil, e.failure()
	}
	return e.state()
}

// ask is checkpoint.Step's: exit code 0 says that the step has ended, 1 that it is to be run again.
func (s shellStep) ask(ctx context.Context, state json.RawMessage, key checkpoint.Key) (checkpoint.Decision, json.RawMessage, error) {
	e, err := s.execute(ctx, state, key)
	if err != nil {
		return checkpoint.Stop, nil, err
	}
	switch e.code {
	case 0:
		after, err := e.state()
		return checkpoint.Finished, after, err
	case 1:
		return checkpoint.RunAgain, state, nil
	}
	return checkpoint.Stop, state, fmt.Errorf("ask does not know: %w", e.failure())
}

// execution is how one run of the command ended.
type execution struct {
	code   int
	said   string // the end of what it wrote to stderr
	after  []byte // the state file, as it left it
	failed error  // it could not be read
}

func (e execution) failure() error {
	text := fmt.Sprintf("exit code %d", e.code)
	if e.code > 128 {
		text += fmt.Sprintf(" (signal %d)", e.code-128)
	}
	if e.said != "" {
		text += ": " + e.said
	}
	return errors.New(text)
}

func (e execution) state() (json.RawMessage, error) {
	if e.failed != nil {
		return nil, fmt.Errorf("the command has ended well, but its state file cannot be read: %w", e.failed)
	}
	return newState(e.after)
}

// execute runs the command until it has ended by itself. What stops it for the term's sake is no failure of the step: when
// the coordinator is back in time it is run again, and when the term is lost, so is ctx.
func (s shellStep) execute(ctx context.Context, state json.RawMessage, key checkpoint.Key) (e execution, err error) {
	ctx, stop := limited(ctx, s.timeout)
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
		if !errors.Is(err, supervise.ErrDisconnected) && !errors.Is(err, supervise.ErrOutOfTime) && !errors.Is(err, fence.ErrLost) {
			return e, err
		}
		if err := s.wait(ctx, 0); err != nil {
			return e, err
		}
	}
}

// attempt starts the command and waits until nothing of it is left. err is why it was stopped, or not started.
func (s shellStep) attempt(ctx context.Context, state []byte, file string, key checkpoint.Key) (e execution, err error) {
	term := s.elector.term()
	said := &tail{}
	child := &supervise.Child{Reaper: s.reaper, Dir: filepath.Dir(s.Path)}
	err = child.Start([]string{"/bin/sh", "-e", "-c", s.script}, s.environ(file, key), bytes.NewReader(state), s.stdout, io.MultiWriter(s.stderr, said))
	if err != nil {
		return e, fmt.Errorf("the command could not be started: %w", err)
	}
	s.Log.Debug("the command is started", "step", key.Step, "pid", child.Pid())
	v := &supervise.Supervisor{
		Child: child, Term: term, Log: s.Log,
		Policy: s.Settings.OnDisconnect, Grace: s.Settings.Grace, Margin: s.Settings.Margin,
	}
	if err := v.Supervise(ctx); err != nil {
		return e, err
	}
	return execution{code: child.ExitCode(), said: said.String()}, nil
}

// environ is what the command finds.
func (s shellStep) environ(file string, key checkpoint.Key) []string {
	return environ.With(environ.Claimed(s.Env, s.elector.term().Claim()), [][2]string{
		{"RINGFENCE_TASK", string(key.Task)},
		{"RINGFENCE_RUN", strconv.FormatInt(key.Run, 10)},
		{"RINGFENCE_ROUND", strconv.FormatInt(key.Round, 10)},
		{"RINGFENCE_STEP", key.Step},
		{"RINGFENCE_KEY", key.String()},
		{"RINGFENCE_STATE", file},
	})
}

// readState reads no more of the file than a state may have.
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

// tail keeps the end of what is written to it.
type tail struct{ text []byte }

const tailLength = 1 << 10

// Write implements io.Writer.
func (t *tail) Write(b []byte) (int, error) {
	t.text = append(t.text, b...)
	t.text = t.text[max(0, len(t.text)-tailLength):]
	return len(b), nil
}

func (t *tail) String() string { return strings.ToValidUTF8(strings.TrimSpace(string(t.text)), "?") }
