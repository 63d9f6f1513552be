package worker

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lab/history"
	"github.com/ringfence/ringfence/lab/scenario"
)

// exit ends the process as kill -9 would, apart from the exit code.
func exit(code int) { os.Exit(code) }

// command keeps both ledgers as the child of leader run, under the token that it was given, until
// it is told to end or both stores have refused it.
func (w *worker) command(ctx context.Context) int {
	claim := fence.Claim{Resource: scenario.Resource, Token: w.c.Token, Holder: w.c.Name}
	w.term(history.Won, claim, "")
	w.term(history.Ready, claim, "")
	defer w.term(history.Left, claim, "")
	err := w.keepLedgers(ctx, claim, nil, nil)
	switch {
	case err != nil:
		w.note("ends: %v", err)
		return ExitFailed
	case ctx.Err() == nil:
		w.note("both stores have refused token %s", claim.Token)
		return ExitDeposed
	}
	return ExitDone
}

// fork starts a process that does the writing, in the same process group, as a shell does. Like a
// shell it does not forward signals: when told to end it ends, and leaves the other process to
// whatever ends the group.
func (w *worker) fork(ctx context.Context, errs io.Writer) (int, error) {
	self, err := os.Executable()
	if err != nil {
		return ExitFailed, err
	}
	child := exec.Command(self)
	child.Env = append(os.Environ(), "LAB_CHILD=", "LAB_HTTP_LISTEN=")
	child.Stdout, child.Stderr = os.Stdout, errs
	if err := child.Start(); err != nil {
		return ExitFailed, fmt.Errorf("fork: %w", err)
	}
	w.note("has forked process %d", child.Process.Pid)
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }() // ends with the child, or with this process
	select {
	case <-ctx.Done():
		return ExitDone, nil
	case <-ended:
		return child.ProcessState.ExitCode(), nil
	}
}
