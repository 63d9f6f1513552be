// Package stepchange says how a saved task continues whose steps have changed since.
package stepchange

import (
	"fmt"
	"slices"

	"github.com/ringfence/ringfence/checkpoint"
)

// Accept continues with the step that has the name of the saved next step, at any position.
func Accept(saved checkpoint.Checkpoint, steps []string) (checkpoint.Checkpoint, error) {
	return Map(nil)(saved, steps)
}

// Restart begins a new run, at the first step and with the task's starting state.
func Restart(saved checkpoint.Checkpoint, steps []string) (checkpoint.Checkpoint, error) {
	saved.Steps = steps
	return saved.NextRun(), nil
}

// Map continues with the saved next step under its new name. renamed maps old names to new
// ones; a step that is not in it has kept its name.
func Map(
	renamed map[string]string,
) func(saved checkpoint.Checkpoint, steps []string) (checkpoint.Checkpoint, error) {
	return func(saved checkpoint.Checkpoint, steps []string) (checkpoint.Checkpoint, error) {
		next := saved.Next()
		if now, ok := renamed[next]; ok {
			next = now
		}
		place := slices.Index(steps, next)
		if place < 0 {
			return saved, fmt.Errorf("no step is called %q now", next)
		}
		saved.Steps, saved.Step = steps, place
		return saved, nil
	}
}
