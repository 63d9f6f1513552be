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
	"unicode/utf8"

	"github.com/ringfence/ringfence/internal/environ"
	"github.com/ringfence/ringfence/internal/supervise"
	"github.com/ringfence/ringfence/jobs"
)

// CommandKind is the kind of job that runs a command.
const CommandKind = "command"

// Command is the payload of such a job.
type Command struct {
	Argv  []string        `json:"argv"`
	Env   []string        `json:"env,omitempty"`   // NAME=value, on top of the worker's
	Stdin json.RawMessage `json:"stdin,omitempty"` // JSON that the command reads
}

// Result is what such a job publishes. The texts are the last bytes of each stream, at most
// MaxOutput, and fewer if JSON needs more than maxEncoded for them.
type Result struct {
	Code   int    `json:"code"` // 128 + n if signal n has ended it
	Stdout string `json:"stdout,omitempty"`
	Stderr string `json:"stderr,omitempty"`
}

const (
	// MaxOutput is how many bytes of a stream are kept.
	MaxOutput = 16 << 10
	// maxEncoded is how many bytes they have at most as JSON, so that both streams fit in a result.
	maxEncoded = jobs.MaxResult/2 - 100
)

// commands runs commands, each in a process group of its own.
type commands struct {
	settings Settings
	reaper   *supervise.Reaper
	env      []string
	log      *slog.Logger
}

// handle is the jobs.Handler.
func (c commands) handle(ctx context.Context, r *jobs.Run) (any, error) {
	var cmd Command
	if err := r.Decode(&cmd); err != nil {
		return nil, err
	}
	if len(cmd.Argv) == 0 {
		return nil, jobs.Permanent(errors.New("the command is missing"))
	}
	if _, err := exec.LookPath(cmd.Argv[0]); err != nil {
		return nil, fmt.Errorf("find the command: %w", err) // another worker may have it
	}
	log := c.log.With("job", string(r.ID), "token", r.Term.Token().String())
	for {
		result, err := c.attempt(ctx, cmd, r, log)
		switch {
		case err == nil && result.Code == 0:
			return result, nil
		case err == nil:
			return result, failure(result)
		case !errors.Is(err, supervise.ErrDisconnected) && !errors.Is(err, supervise.ErrOutOfTime):
			return result, err
		}
		// It was stopped in time because the coordinator was out of reach: the job has not failed.
		if err := r.Term.Wait(ctx); err != nil {
			return nil, err
		}
	}
}

func failure(r Result) error {
	text := fmt.Sprintf("exit code %d", r.Code)
	if r.Code > 128 {
		text += fmt.Sprintf(" (signal %d)", r.Code-128)
	}
	if end := strings.TrimSpace(r.Stderr); end != "" {
		text += ": " + end[max(0, len(end)-1000):]
	}
	return errors.New(text)
}

// attempt runs the command until its process group is gone. err is why it was stopped, or could not
// be started.
func (c commands) attempt(
	ctx context.Context, cmd Command, r *jobs.Run, log *slog.Logger,
) (Result, error) {
	var stdout, stderr tail
	child := &supervise.Child{Reaper: c.reaper}
	err := child.Start(cmd.Argv, c.environ(cmd, r), bytes.NewReader(cmd.Stdin), &stdout, &stderr)
	if err != nil {
		return Result{}, fmt.Errorf("the command could not be started: %w", err)
	}
	log.Info("the command of a job was started", "pid", child.Pid())
	s := &supervise.Supervisor{
		Child: child, Term: r.Term, Log: log,
		Policy: c.settings.OnDisconnect, Grace: c.settings.Grace, Margin: c.settings.Margin,
	}
	if err := s.Supervise(ctx); err != nil {
		return Result{Code: child.ExitCode(), Stdout: stdout.String(), Stderr: stderr.String()}, err
	}
	log.Info("the command of a job has ended", "code", child.ExitCode())
	return Result{child.ExitCode(), stdout.String(), stderr.String()}, nil
}

// environ returns the command's environment.
func (c commands) environ(cmd Command, r *jobs.Run) []string {
	env := c.env
	for _, entry := range cmd.Env {
		name, value, _ := strings.Cut(entry, "=")
		env = environ.With(env, [][2]string{{name, value}})
	}
	claim := r.Term.Claim()
	return environ.With(environ.Claimed(env, claim), ofJob(r))
}

// tail keeps the last bytes that are written to it.
type tail struct{ text []byte }

// Write implements io.Writer.
func (t *tail) Write(b []byte) (int, error) {
	t.text = append(t.text, b...)
	if len(t.text) > 2*MaxOutput {
		t.text = append([]byte(nil), t.text[len(t.text)-MaxOutput:]...)
	}
	return len(b), nil
}

func (t *tail) String() string {
	text := strings.ToValidUTF8(string(t.text[max(0, len(t.text)-MaxOutput):]), "?")
	from := len(text)
	for left := maxEncoded; from > 0; {
		_, size := utf8.DecodeLastRuneInString(text[:from])
		if left -= encodedLength(text[from-size : from]); left < 0 {
			break
		}
		from -= size
	}
	return text[from:]
}

// encodedLength is how many bytes a text has in a JSON text. Control characters and < have six.
func encodedLength(s string) int {
	b, _ := json.Marshal(s) // a string can always be encoded
	return len(b) - len(`""`)
}
