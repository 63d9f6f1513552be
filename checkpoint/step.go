package checkpoint

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"

	"github.com/ringfence/ringfence/checkpoint/unfinished"
	"github.com/ringfence/ringfence/fence"
)

// Step is one named step of a task with state S.
//
// An asynchronous step (Run) does idempotent work anywhere and returns the new state, which is then
// published together with the next step. It runs at least once: if the leader stops between the
// work and the publish, the step runs again. A synchronous step, made by Synchronous, has its
// effects exactly once.
//
// ctx ends with the term, and context.Cause says why. Then the step must return.
type Step[S any] struct {
	Name string
	Run  func(ctx context.Context, s S, key Key) (S, error)

	// Retry replaces the task's policy for this step, if not nil.
	Retry *Retry

	// Unfinished says what to do with an asynchronous step that an earlier leader, or a run before
	// a Resume, has started and not ended: it may have run completely, in part, or not at all.
	// RunAgain, the zero value, records no start, which saves one publish per step.
	Unfinished unfinished.Decision
	// Ask decides instead of Unfinished, for example by looking the key up in the outside world. If
	// it returns Finished, its state is the step's result.
	Ask func(ctx context.Context, s S, key Key) (unfinished.Decision, S, error)

	transact func(ctx context.Context, j Journal, c fence.Claim, s S,
		publish func(S) (Checkpoint, error)) error
	fits func(j Journal) bool
}

// Synchronous makes a step that commits its effects in tx, the new state and the next step in one
// transaction, under the fence. So its effects in the database happen exactly once, in order. Tx is
// the transaction of the journal's driver; a journal without such transactions cannot run the step.
// run must neither commit nor roll back tx. It may be called several times, of which one is
// committed, so it should have no effects outside tx.
func Synchronous[S, Tx any](
	name string, run func(ctx context.Context, tx Tx, s S) (S, error),
) Step[S] {
	return Step[S]{
		Name: name,
		transact: func(
			ctx context.Context, j Journal, c fence.Claim, s S, publish func(S) (Checkpoint, error),
		) error {
			return j.(Transactor[Tx]).Transact(ctx, c, func(ctx context.Context, tx Tx) (Checkpoint, error) {
				next, err := protect(func() (S, error) { return run(ctx, tx, s) })
				if err != nil {
					return Checkpoint{}, &stepError{err}
				}
				return publish(next)
			})
		},
		fits: func(j Journal) bool { _, ok := j.(Transactor[Tx]); return ok },
	}
}

// recordsStart reports whether the step's start is published before it runs.
func (s Step[S]) recordsStart() bool {
	return s.transact == nil && (s.Ask != nil || s.Unfinished != unfinished.RunAgain)
}

// protect turns a panic into a *PanicError.
func protect[S any](run func() (S, error)) (s S, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: string(debug.Stack())}
		}
	}()
	return run()
}

// encode returns the state as JSON.
func encode[S any](s S, limit int) (json.RawMessage, error) {
	b, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("the state cannot be written as JSON: %w", err)
	}
	if len(b) > limit {
		return nil, fmt.Errorf("%w: the state has %d bytes of JSON, the task allows %d; "+
			"keep large data elsewhere and its name in the state", ErrTooLarge, len(b), limit)
	}
	return b, nil
}
