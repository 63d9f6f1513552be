package checkpoint

import (
	"errors"
	"fmt"
	"strings"
)

// What a journal can answer, besides fence's refusals.
var (
	// ErrTransient: the journal was out of reach, busy, or had to give way to another transaction.
	// Nothing has landed. Try again; it costs no attempt of a step's.
	ErrTransient = errors.New("the journal could not do it now; nothing has landed")
	// ErrUnknown: the connection broke while the answer was awaited. The publish landed or it did
	// not: Take tells.
	ErrUnknown = errors.New("the journal's answer was lost; the checkpoint may have landed")
	// ErrConflict: the stored version is not the one before the published. Nothing was changed.
	ErrConflict = errors.New("the checkpoint has another version")
	// ErrUncommitted: the database would not commit what a synchronous step did: a deferred
	// constraint, an error that the step has hidden, a transaction that it ended itself. It is the
	// step's own failure. Nothing has landed, but for what the step itself has committed against
	// the rules.
	ErrUncommitted = errors.New("the step's transaction could not be committed")
	// ErrTooLarge: the state, or the checkpoint as a whole, is above the limit of the task or the
	// journal. Nothing has landed.
	ErrTooLarge = errors.New("the checkpoint is too large")
	// ErrCorrupt: what is stored cannot be read as a checkpoint, or its state not as the task's.
	// Nothing was changed.
	ErrCorrupt = errors.New("the stored checkpoint cannot be read")
)

// What a run can end with, besides a lost term.
var (
	// ErrBadTask is returned for a task that cannot be run as it is written, before anything is run.
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

// StoppedError says that a step has failed for good. The effects of that step: none for a
// synchronous one; for an asynchronous one whatever it did before it failed. The steps before it
// are done.
type StoppedError struct {
	Checkpoint Checkpoint
	Cause      error // the step's own error; nil when it failed in an earlier term
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

// Unwrap returns the step's own error.
func (e *StoppedError) Unwrap() error { return e.Cause }

// Is matches ErrStopped.
func (e *StoppedError) Is(target error) bool { return target == ErrStopped }

// StepsChangedError says that the saved checkpoint belongs to another list of steps. Nothing was
// run or changed. See Task.Changed for the ways on.
type StepsChangedError struct {
	Task         Name
	Saved, Given []string
	Next         string // the saved next step
	Reason       string // why the way on that was chosen did not work; may be empty
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
