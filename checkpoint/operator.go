package checkpoint

import (
	"bytes"
	"context"
	"fmt"

	"github.com/ringfence/ringfence/fence"
)

// Resume lets a stopped task continue: the step that it stopped at runs again. It does not change a
// task that is not stopped. Only leaders write checkpoints, so it needs a term.
func Resume(ctx context.Context, term *fence.Term, j Journal, task Name) (Checkpoint, error) {
	return edit(ctx, term, j, task, func(c Checkpoint) (Checkpoint, bool) {
		if c.Status != Stopped {
			return c, false
		}
		c.Status, c.Failure = Running, nil
		return c, true
	})
}

// Restart begins a new run of a task, whatever its status, at the first step and with the starting
// state. It does not undo the old run. The new run has other idempotency keys.
func Restart(ctx context.Context, term *fence.Term, j Journal, task Name) (Checkpoint, error) {
	return edit(ctx, term, j, task, func(c Checkpoint) (Checkpoint, bool) { return c.NextRun(), true })
}

// edit changes a saved checkpoint under the term's claim.
func edit(
	ctx context.Context, term *fence.Term, j Journal, task Name,
	change func(Checkpoint) (Checkpoint, bool),
) (Checkpoint, error) {
	ctx, stop := within(ctx, term)
	defer stop()
	w := &writer{journal: j, claim: term.Claim(), notify: func(Event) {}}
	if _, err := w.takeOver(ctx, Checkpoint{Task: task}); err != nil {
		return Checkpoint{}, err
	}
	if w.cp.Version == 0 {
		return w.cp, fmt.Errorf("%w: no task %s in this journal; nothing was changed", ErrNotFound, task)
	}
	changed, ok := change(w.cp.clone())
	if !ok {
		return w.cp, nil
	}
	err := w.publish(ctx, changed)
	return w.cp, err
}

// NextRun returns the checkpoint that begins the next run.
func (c Checkpoint) NextRun() Checkpoint {
	c.Run++
	c.Round, c.Step, c.Status, c.Failure, c.State = 1, 0, Running, nil, nil
	return c
}

// untouched reports whether the run has not begun yet.
func (c Checkpoint) untouched() bool {
	return c.Round == 1 && c.Step == 0 && c.Status == Running && empty(c.State)
}

// empty reports whether there is no state yet, so that the task's starting state applies.
func empty(state []byte) bool { return len(state) == 0 || bytes.Equal(state, []byte("null")) }
