package worker

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"

	"golang.org/x/sync/errgroup"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lab"
	"github.com/ringfence/ringfence/lab/history"
)

// exit ends the process as kill -9 would, but for the code.
func exit(code int) { os.Exit(code) }

// command keeps both ledgers as the child of leader run: under the token that it was given, until it is told to end or
// both stores have refused it.
func (w *worker) command(ctx context.Context) int {
	claim := fence.Claim{Resource: lab.Resource, Token: w.c.Token, Holder: w.c.Name}
	w.term(history.Won, claim, "")
	w.term(history.Ready, claim, "")
	defer w.term(history.Left, claim, "")
	pg, err := w.postgresUnder(claim)
	if err != nil {
		w.note("%v", err)
		return ExitFailed
	}
	defer pg.close()
	rdb, err := w.redisUnder(claim)
	if err != nil {
		w.note("%v", err)
		return ExitFailed
	}
	defer rdb.close()
	var both errgroup.Group
	for _, s := range []*stint{{store: "postgres", writer: pg}, {store: "redis", writer: rdb}} {
		s.w, s.token = w, claim.Token
		both.Go(func() error { return s.run(ctx) })
	}
	err = both.Wait()
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

// fork has a process of its own do the writing, in the same process group, as a shell does. Like a shell it does not pass
// signals on: told to end it does so, and leaves the other one to whoever ends the group.
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
	go func() { ended <- child.Wait() }() // outlived by nobody: this process ends, or the child has
	select {
	case <-ctx.Done():
		return ExitDone, nil
	case <-ended:
		return child.ProcessState.ExitCode(), nil
	}
}
