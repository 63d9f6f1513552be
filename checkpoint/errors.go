package checkpoint

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ringfence/ringfence/fence"
)

// Errors of a journal, in addition to fence's refusals.
var (
	// ErrTransient: the journal was out of reach or busy, or it aborted the transaction in favour
	// of another one. Nothing has landed. Try again; this uses up none of a step's attempts. It
	// matches fence.ErrNotDone.
	ErrTransient = fmt.Errorf("the journal could not do it now; %w", fence.ErrNotDone)
	// ErrUnknown: the connection broke before the answer came. The publish may have landed; call
	// TakeOver to find out. A call of Forget can be repeated instead. It matches fence.ErrUnknown.
	ErrUnknown = fmt.Errorf("%w; the checkpoint may have landed", fence.ErrUnknown)
	// ErrConflict: the stored version is not the one before the published one. Nothing was changed.
	ErrConflict = errors.New("the checkpoint has another version")
	// ErrUncommitted: the database refused to commit a synchronous step: a deferred constraint
	// failed, the step ignored an error, or it ended the transaction itself. It counts as a failure
	// of the step. Nothing has landed, except what the step has committed against the rules.
	ErrUncommitted = errors.New("the step's transaction could not be committed")
	// ErrTooLarge: the state, or the checkpoint as a whole, is above the limit of the task or the
	// journal. Nothing has landed.
	ErrTooLarge = errors.New("the checkpoint is too large")
	// ErrCorrupt: what is stored is not a checkpoint, or its state does not fit the task's type.
	// Nothing was changed.
	ErrCorrupt = errors.New("the stored checkpoint cannot be read")
)

// Errors of a run, in addition to those of a lost term.
var (
	// ErrBadTask is returned by Validate, and by Run before it runs anything.
	ErrBadTask = errors.New("not a task")
	// ErrStepsChanged is matched by a *StepsChangedError.
	ErrStepsChanged = errors.New("the saved task has other steps")
	// ErrStopped is matched by a *StoppedError.
	ErrStopped = errors.New("the task is stopped")
	// ErrNotFound is returned when an operator names a task that the journal does not have.
	ErrNotFound = errors.New("no such task")
	// ErrOtherResource is returned when the task was published under the election of another resource.
	ErrOtherResource = errors.New("the task belongs to another resource")
)

// StoppedError says that a step has failed for good. The steps before it are done. A synchronous
// step has left no effects; an asynchronous one has left what it did before it failed.
type StoppedError struct {
	Checkpoint Checkpoint
	Cause      error // the step's error; nil if it failed in an earlier term
}

func (e *StoppedError) Error() string {
	f := e.Checkpoint.Failure
	if f == nil {
		f = &Failure{Step: e.Checkpoint.Next(), Message: "no reason was recorded"}
	}
	return fmt.Sprintf("task %s is stopped at step %q (step %d of %d, round %d) after %d attempts: %s",
		e.Checkpoint.Task, f.Step, e.Checkpoint.Step+1, len(e.Checkpoint.Steps), e.Checkpoint.Round,
		f.Attempts, f.Message)
}

// Unwrap returns Cause.
func (e *StoppedError) Unwrap() error { return e.Cause }

// Is matches ErrStopped.
func (e *StoppedError) Is(target error) bool { return target == ErrStopped }

// StepsChangedError says that the saved checkpoint belongs to another list of steps. Nothing was
// run or changed. Set Task.OnStepsChanged to say how the task continues.
type StepsChangedError struct {
	Task         Name
	Saved, Given []string
	Next         string // the saved next step
	Reason       string // why Task.OnStepsChanged failed; empty if it is nil
}

func (e *StepsChangedError) Error() string {
	s := fmt.Sprintf("task %s was saved with the steps [%s], next %q, and is now [%s]; "+
		"nothing was run",
		e.Task, strings.Join(e.Saved, ", "), e.Next, strings.Join(e.Given, ", "))
	if e.Reason != "" {
		s += ": " + e.Reason
	}
	return s
}

// Is matches ErrStepsChanged.
func (e *StepsChangedError) Is(target error) bool { return target == ErrStepsChanged }

// PanicError is the error of a step that panicked.
type PanicError struct {
	Value any
	Stack string
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }
