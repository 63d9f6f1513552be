package tasks

import (
	"context"
	"testing"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/checkpointtest"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/fencetest"
	"github.com/ringfence/ringfence/internal/test/must"
)

// A worker may be gone after the task of a round is done, and before the job's end is published.
// The next one, which has the same round, must find the task done, whether or not it is the first
// to look.
func TestATaskIsBegunAnewOnceInARound(t *testing.T) {
	c := fencetest.NewMemory(longSession).Open()
	defer c.Close()
	journal, ran := checkpointtest.NewMemory(), 0
	task := checkpoint.Task[int]{Name: "nightly", Steps: []checkpoint.Step[int]{{
		Name: "one", Run: func(_ context.Context, s int, _ checkpoint.Key) (int, error) {
			ran++
			return s, nil
		},
	}}}
	// attempt is that of one worker: it begins a round, or has the round that began under a token.
	attempt := func(began fence.Token) fence.Token {
		t.Helper()
		term, err := c.Campaign(t.Context(), "noted", "w")
		must.Succeed(t, err)
		if began == 0 {
			began = term.Token()
		}
		renew := renewal{term, journal, task.Name, began}
		for range 2 { // again after a lost connection
			must.Succeed(t, renew.Raise(t.Context(), term.Claim()))
		}
		if _, err := task.Run(t.Context(), term, journal,
			checkpoint.Checkpoint{Task: task.Name}); err != nil {
			t.Fatal(err)
		}
		must.Succeed(t, term.Resign(t.Context()))
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

// A rebuilt coordinator is another issuer, and its tokens may be lower than those of the old one.
func TestATaskThatWasDoneUnderAnotherIssuerIsBegunAnew(t *testing.T) {
	task := checkpoint.Name("nightly")
	lead := func(terms int) *fence.Term {
		c := fencetest.NewMemory(longSession).Open()
		t.Cleanup(func() { c.Close() })
		for {
			term, err := c.Campaign(t.Context(), "noted", "w")
			must.Succeed(t, err)
			if terms--; terms == 0 {
				return term
			}
			must.Succeed(t, term.Resign(t.Context()))
		}
	}
	old, term := lead(5), lead(1)
	if old.Token() <= term.Token() {
		t.Fatalf("the old token %s is not higher than %s", old.Token(), term.Token())
	}
	for _, issuer := range []fence.Issuer{old.Claim().Issuer, ""} {
		// "": of a program that stored none
		journal := checkpointtest.NewMemory() // its mark was adopted for the new issuer
		must.Succeed(t, journal.Raise(t.Context(), term.Claim()))
		must.Succeed(t, journal.Publish(t.Context(), term.Claim(), checkpoint.Checkpoint{
			Task: task, Resource: "noted", Version: 1, Run: 1, Status: checkpoint.Done,
			Token: old.Token(), Issuer: issuer,
		}))
		renew := renewal{term, journal, task, term.Token()}
		for range 2 { // again after a lost connection
			must.Succeed(t, renew.Raise(t.Context(), term.Claim()))
		}
		found, err := journal.Load(t.Context(), task)
		if err != nil || len(found) != 1 || found[0].Run != 2 || found[0].Issuer != term.Claim().Issuer {
			t.Errorf("done under the issuer %q: %v, %+v", issuer, err, found)
		}
	}
}
