package password

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/ringfence/ringfence/internal/process"
)

const (
	// runLimit is how long a command may run.
	runLimit = 10 * time.Second
	// usedFor is how long a result is used again: connections that open at once share one run.
	usedFor = time.Second
	// maxMessage is how much of a command's standard error is kept, and shown.
	maxMessage = 200
)

// runs are the runs of a command, one at a time. Whoever waits for a run takes its result.
type runs struct {
	running chan struct{} // has a value during a run; waiting for it can end with a context
	limit   time.Duration // of a run

	mu       sync.Mutex
	password string
	err      error
	ended    time.Time // of the run that gave password and err; zero if there is no result to use
}

func newRuns() runs { return runs{running: make(chan struct{}, 1), limit: runLimit} }

// run returns the result of the newest run, or runs the command.
func (r *runs) run(ctx context.Context, argv []string) (string, error) {
	asked := time.Now()
	select {
	case r.running <- struct{}{}:
		defer func() { <-r.running }()
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	if password, err, ok := r.recent(asked); ok {
		return password, err
	}
	password, err := output(ctx, r.limit, argv)
	if ctx.Err() == nil { // otherwise it says nothing to others
		r.mu.Lock()
		r.password, r.err, r.ended = password, err, time.Now()
		r.mu.Unlock()
	}
	return password, err
}

// recent returns the last result if the caller has waited for it, or if it is a password and new.
func (r *runs) recent(asked time.Time) (password string, err error, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ok = r.ended.After(asked) || r.err == nil && r.ended.After(asked.Add(-usedFor))
	return r.password, r.err, ok
}

// forget drops the last result if it is this password.
func (r *runs) forget(password string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil && r.password == password {
		r.password, r.ended = "", time.Time{}
	}
}

// output runs a command. Its error has the first line of the command's standard error, and never
// its output.
func output(ctx context.Context, limit time.Duration, argv []string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the command has not ended "+
		"within %s", limit))
	defer cancel()
	out, message := bounded{most: maxLength + 1}, bounded{most: maxMessage}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = &out, &message
	cmd.WaitDelay = time.Second // for a child of the command that keeps its output open
	ownGroup(cmd)
	err := process.Start(cmd)
	if err == nil {
		err = process.Wait(cmd)
	}
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case errors.Is(err, exec.ErrWaitDelay): // the command itself has succeeded
	case err != nil && message.firstLine() != "":
		return "", fmt.Errorf("%w: %s", err, message.firstLine())
	case err != nil:
		return "", err
	}
	return clean(out.Bytes())
}

// bounded keeps the beginning of what is written to it.
type bounded struct {
	bytes.Buffer
	most int
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	b.Buffer.Write(p[:min(len(p), b.most-b.Len())])
	return len(p), nil
}

func (b *bounded) firstLine() string {
	line, _, _ := strings.Cut(strings.TrimSpace(b.String()), "\n")
	return strings.ToValidUTF8(strings.TrimSpace(line), "")
}
