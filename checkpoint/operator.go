package checkpoint

import (
	"bytes"
	"context"
	"fmt"

	"github.com/ringfence/ringfence/fence"
)

// Resume lets a stopped task go on with the step that it stopped at, which is run again. It is done
// by a leader, like everything that writes a checkpoint: win a term first. A task that is not
// stopped stays as it is.
func Resume(ctx context.Context, term *fence.Term, j Journal, task Name) (Checkpoint, error) {
	return edit(ctx, term, j, task, func(c Checkpoint) (Checkpoint, bool) {
		if c.Status != Stopped {
			return c, false
		}
		c.Status, c.Failure = Running, nil
		return c, true
	})
}

// Restart begins a new run of a task, from the first step and the starting state, whatever its
// status. What the steps of the old run did stays done; the new run's idempotency keys differ from
// the old one's.
func Restart(ctx context.Context, term *fence.Term, j Journal, task Name) (Checkpoint, error) {
	return edit(ctx, term, j, task, func(c Checkpoint) (Checkpoint, bool) { return c.restart(), true })
}

// edit changes a saved checkpoint under the term's claim.
func edit(
	ctx context.Context, term *fence.Term, j Journal, task Name,
	change func(Checkpoint) (Checkpoint, bool),
) (Checkpoint, error) {
	ctx, stop := within(ctx, term)
	defer stop()
	d := &desk{journal: j, claim: term.Claim(), notify: func(Event) {}}
	if _, err := d.take(ctx, Checkpoint{Task: task}); err != nil {
		return Checkpoint{}, err
	}
	if d.cp.Version == 0 {
		return d.cp, fmt.Errorf("%w: no task %s in this journal; nothing was changed", ErrNotFound, task)
	}
	changed, ok := change(d.cp.clone())
	if !ok {
		return d.cp, nil
	}
	err := d.publish(ctx, changed)
	return d.cp, err
}

// restart is the beginning of the next run.
func (c Checkpoint) restart() Checkpoint {
	c.Run++
	c.Round, c.Step, c.Status, c.Failure, c.State = 1, 0, Running, nil, nil
	return c
}

// untouched says that nothing of this run has been done yet.
func (c Checkpoint) untouched() bool {
	return c.Round == 1 && c.Step == 0 && c.Status == Running && empty(c.State)
}

// empty says that there is no state: the task's starting state is meant.
func empty(state []byte) bool { return len(state) == 0 || bytes.Equal(state, []byte("null")) }
