package checkpoint

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Task is an ordered list of named steps with a state S, which is stored as JSON.
//
// A step that has ended never runs again: there is no replay, so steps need not be deterministic.
type Task[S any] struct {
	Name   Name
	Steps  []Step[S]
	Rounds int64 // how often the list runs: 1 when zero, or Forever
	Start  S     // the state before the first step
	Retry  Retry // for steps without a policy of their own

	// StateLimit is the maximum size of the state, in bytes of JSON; 1 MiB when zero. A journal may
	// allow less.
	StateLimit int

	// OnStepsChanged says how to continue a saved task that has other steps: a function of package
	// stepchange, or one of yours. It returns saved with Step, and whatever else has to change, set
	// for the new list. After an error nothing runs. When nil, such a task does not run
	// (ErrStepsChanged).
	OnStepsChanged func(saved Checkpoint, steps []string) (Checkpoint, error)

	// Notify is called for each event, in the goroutine that runs the task; may be nil.
	Notify func(Event)
}

const defaultStateLimit = 1 << 20

func (t Task[S]) stateLimit() int {
	if t.StateLimit == 0 {
		return defaultStateLimit
	}
	return t.StateLimit
}

func (t Task[S]) rounds() int64 {
	if t.Rounds == 0 {
		return 1
	}
	return t.Rounds
}

func (t Task[S]) names() []string {
	var names []string
	for _, s := range t.Steps {
		names = append(names, s.Name)
	}
	return names
}

// Validate checks that the task can run with this journal. It returns every problem, joined under
// ErrBadTask.
func (t Task[S]) Validate(j Journal) error {
	var problems []error
	report := func(bad bool, format string, args ...any) {
		if bad {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	_, err := ParseName(string(t.Name))
	report(err != nil, "%w", err)
	report(len(t.Steps) == 0, "it has no steps")
	report(t.Rounds < Forever, "rounds is %d: use a number above 0, or Forever", t.Rounds)
	for i, s := range t.Steps {
		report(s.Name == "", "step %d has no name", i+1)
		report(strings.ContainsFunc(s.Name, isControl),
			"step %d: %q has a control character", i+1, s.Name)
		report(s.Name != "" && slices.Contains(t.names()[:i], s.Name), "two steps are called %q", s.Name)
		report(s.Run == nil && s.transact == nil, "step %q does nothing: it has no Run", s.Name)
		report(s.Run != nil && s.transact != nil, "step %q is both synchronous and asynchronous", s.Name)
		report(s.fits != nil && !s.fits(j),
			"step %q is synchronous, and the journal (%T) has no such transactions", s.Name, j)
	}
	if len(problems) == 0 {
		return nil
	}
	return fmt.Errorf("%w: task %s: %w", ErrBadTask, t.Name, errors.Join(problems...))
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }
