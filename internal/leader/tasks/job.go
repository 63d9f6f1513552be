package tasks

import (
	"context"
	"fmt"
	"io"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/leader/supervise"
)

// RunIn runs the task of a job in the job's term, from its checkpoint. Commands write to stdout and
// stderr. It returns what checkpoint.Runner.RunIn returns, or an error of the journal. Call Load
// first.
func (inv *Invocation) RunIn(
	ctx context.Context, term *fence.Term, reaper *supervise.Reaper, stdout, stderr io.Writer,
) (checkpoint.Checkpoint, error) {
	journal, closeJournal, err := inv.journal(ctx)
	if err != nil {
		return checkpoint.Checkpoint{}, fmt.Errorf("open the journal: %w", inv.scrubbed(err))
	}
	defer closeJournal()
	r := &taskRun{
		Invocation: inv, ctx: ctx, reaper: reaper, stdout: stdout, stderr: stderr,
		elector: new(recordingElector),
	}
	r.elector.won.Store(term)
	c, closeRedis := r.runner(journal)
	defer closeRedis()
	return r.inContext(func(ctx context.Context) (checkpoint.Checkpoint, error) {
		return c.RunIn(ctx, term)
	})
}
