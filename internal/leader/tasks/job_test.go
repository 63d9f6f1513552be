package tasks

import (
	"context"
	"testing"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/checkpointtest"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/fencetest"
)

// A worker may be gone after the task of a round is done, and before the job's end is published. The next
// one, which has the same round, must find the task done, whether or not it is the first to look.
func TestATaskIsBegunAnewOnceInARound(t *testing.T) {
	c := fencetest.NewMemory(longSession).Open()
	defer c.Close()
	journal, ran := checkpointtest.NewMemory(), 0
	task := checkpoint.Task[int]{Name: "nightly", Steps: []checkpoint.Step[int]{{
		Name: "one", Run: func(_ context.Context, s int, _ checkpoint.Key) (int, error) { ran++; return s, nil },
	}}}
	// attempt is that of one worker: it begins a round, or has the round that began under a token.
	attempt := func(began fence.Token) fence.Token {
		t.Helper()
		term, err := c.Campaign(t.Context(), "noted", "w")
		if err != nil {
			t.Fatal(err)
		}
		if began == 0 {
			began = term.Token()
		}
		renew := renewal{term, journal, task.Name, began}
		for range 2 { // again after a lost connection
			if err := renew.Raise(t.Context(), term.Claim()); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := task.Run(t.Context(), term, journal, checkpoint.Checkpoint{Task: task.Name}); err != nil {
			t.Fatal(err)
		}
		if err := term.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		return began
	}
	first := attempt(0)
	attempt(first)
	if ran != 1 {
		t.Errorf("in its first round the task has run %d times", ran)
	}
	second := attempt(0)
	attempt(second)
	if ran != 2 {
		t.Errorf("after two rounds it has run %d times", ran)
	}
}
