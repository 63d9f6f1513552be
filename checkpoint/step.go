package checkpoint

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"

	"github.com/ringfence/ringfence/fence"
)

// Step is one named step of a task with state S.
//
// An asynchronous step (Run) does idempotent work anywhere and returns the new state, which is then
// published with the next step. It is run at least once: a leader that ends between the work and
// the publish leaves it to be run again. A synchronous step (made by Synchronous) is run exactly
// once.
//
// ctx ends with the term; context.Cause tells why. A step has to return then.
type Step[S any] struct {
	Name string
	Run  func(ctx context.Context, s S, key Key) (S, error)

	// Retry is this step's own policy; the task's when nil.
	Retry *Retry

	// Unfinished is what to do with an asynchronous step whose start was recorded by an earlier
	// leader (or an earlier attempt to resume) and whose end was not: it may have run, in part, or
	// not at all. RunAgain, the zero value, records no start, and so costs one publish less per
	// step.
	Unfinished Decision
	// Ask decides instead of Unfinished, such as by asking the outside world about the key. On
	// Finished the state that it returns is the step's result.
	Ask func(ctx context.Context, s S, key Key) (Decision, S, error)

	transact func(ctx context.Context, j Journal, c fence.Claim, s S,
		publish func(S) (Checkpoint, error)) error
	fits func(j Journal) bool
}

// Decision is about a step that was started and not seen to end.
type Decision int

const (
	RunAgain Decision = iota // run it again, with the same key
	Stop                     // stop the task; an operator decides
	Finished                 // it did end: go on with the next step
)

// Synchronous makes a step whose effects in tx, new state and next step are committed together,
// under the fence: its effects in the database happen exactly once, in order. Tx is the transaction
// of the journal's driver; a journal without such transactions cannot run it. run must neither
// commit nor roll back tx, and may be run several times of which one is committed, so nothing but
// tx may have effects.
func Synchronous[S, Tx any](
	name string, run func(ctx context.Context, tx Tx, s S) (S, error),
) Step[S] {
	return Step[S]{
		Name: name,
		transact: func(ctx context.Context, j Journal, c fence.Claim, s S,
			publish func(S) (Checkpoint, error)) error {
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

// recordsStart tells whether the step's start is published before it is run.
func (s Step[S]) recordsStart() bool {
	return s.transact == nil && (s.Ask != nil || s.Unfinished != RunAgain)
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

// encode is the state as it is stored.
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
