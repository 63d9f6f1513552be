package checkpoint

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/ringfence/ringfence/fence"
)

// RunTask runs a task of steps on one of several processes, and returns the state after the last
// step. Call it in as many processes as you like: one leads and runs the steps, the others wait,
// and the next leader continues after the last step that has ended. A task that is done does not
// run again; RunTask returns its state.
//
// The mark is raised on the stores of lead and on the journal before a step runs. The errors are
// those of Runner.Run. Runner also takes rounds, a policy of retries, and a function that hears of
// events.
func RunTask[S any](
	ctx context.Context, lead fence.Lead, j Journal, name Name, steps ...Step[S],
) (last S, err error) {
	end, err := Runner[S]{Lead: lead, Journal: j, Task: Task[S]{Name: name, Steps: steps}}.Run(ctx)
	if err != nil {
		return last, err
	}
	if err := json.Unmarshal(end.State, &last); err != nil {
		return last, fmt.Errorf("%w: the state of task %s: %w", ErrCorrupt, name, err)
	}
	return last, nil
}

// Do makes an asynchronous step: it runs at least once, each time with the same key.
func Do[S any](
	name string, run func(ctx context.Context, s S, key Key) (S, error),
) Step[S] {
	return Step[S]{Name: name, Run: run}
}
