package checkpoint_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/checkpointtest"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/internal/test/must"
)

// asyncOnly hides the transactions of a journal.
type asyncOnly struct{ checkpoint.Journal }

func TestATaskThatCannotRunIsRefusedBeforeTheJournalIsCalled(t *testing.T) {
	s := newStage(t)
	good := s.noting("good")
	both := appending("both")
	both.Run = good.Run
	otherTx := checkpoint.Synchronous("other", func(context.Context, *int, done) (done, error) {
		panic("never")
	})
	for name, c := range map[string]struct {
		task    checkpoint.Task[done]
		journal checkpoint.Journal
		says    []string
	}{
		"no steps":          {tasked(), s.journal, []string{"no steps"}},
		"no name of a step": {tasked(good, s.noting("")), s.journal, []string{"step 2 has no name"}},
		"two of one name": {tasked(good, s.noting("x"), good, appending("x")), s.journal,
			[]string{`two steps are called "good"`, `two steps are called "x"`}},
		"a line feed": {tasked(s.noting("a\nb")), s.journal, []string{"control character"}},
		"nothing to run": {tasked(checkpoint.Step[done]{Name: "empty"}), s.journal,
			[]string{`"empty" does nothing`}},
		"both kinds": {tasked(both), s.journal, []string{"both synchronous and asynchronous"}},
		"no transactions": {tasked(good, appending("book")), asyncOnly{s.journal},
			[]string{`"book" is synchronous`, "asyncOnly"}},
		"other transactions": {tasked(otherTx), s.journal, []string{`"other" is synchronous`}},
		"bad rounds": {checkpoint.Task[done]{Name: "nightly", Steps: tasked(good).Steps,
			Rounds: -2}, s.journal, []string{"rounds is -2"}},
		"no name": {checkpoint.Task[done]{Steps: tasked(good).Steps}, s.journal,
			[]string{"not a task name"}},
		"all at once": {checkpoint.Task[done]{Name: "a b", Rounds: -7}, s.journal,
			[]string{"not a task name", "no steps", "rounds is -7"}},
	} {
		t.Run(name, func(t *testing.T) {
			s.journal.Fail = func(op checkpointtest.Op, cp checkpoint.Checkpoint) checkpointtest.Fault {
				if op != checkpointtest.Raise {
					t.Errorf("the journal was called: %s %+v", op, cp)
				}
				return checkpointtest.None
			}
			_, err := c.task.Run(t.Context(), s.term(), c.journal, checkpoint.Checkpoint{})
			is(t, err, checkpoint.ErrBadTask)
			for _, part := range c.says {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
		})
	}
}

func TestAStartingStateThatDoesNotFitIsABadTask(t *testing.T) {
	s := newStage(t)
	large := tasked(s.noting("a"))
	large.Start, large.StateLimit = done{[]string{strings.Repeat("x", 100)}}, 100
	_, err := s.run(large)
	is(t, err, checkpoint.ErrBadTask, checkpoint.ErrTooLarge)

	odd := checkpoint.Task[chan int]{Name: "nightly", Start: make(chan int),
		Steps: []checkpoint.Step[chan int]{
			{Name: "a", Run: func(_ context.Context, c chan int, _ checkpoint.Key) (chan int, error) {
				return c, nil
			}},
		}}
	_, err = odd.Run(t.Context(), s.term(), s.journal, checkpoint.Checkpoint{})
	is(t, err, checkpoint.ErrBadTask)
	if s.stored().Version != 0 || len(s.diary.read()) > 0 {
		t.Errorf("stored %+v, run %v", s.stored(), s.diary.read())
	}
}

// put publishes a checkpoint as another program might have left it.
func (s *stage) put(alter func(cp *checkpoint.Checkpoint)) checkpoint.Checkpoint {
	s.Helper()
	c := s.term().Claim()
	cp := checkpoint.Checkpoint{
		Task: "nightly", Resource: c.Resource, Version: s.stored().Version + 1, Token: c.Token,
		Run: 1, Round: 1, Rounds: 1,
		Steps: []string{"a", "b"}, Step: 1,
		Status: checkpoint.Running, State: json.RawMessage(`{"Keys":["a"]}`),
	}
	alter(&cp)
	must.Succeed(s, s.journal.Publish(s.Context(), c, cp))
	return cp
}

func TestACheckpointThatDoesNotFitRunsNothing(t *testing.T) {
	for name, alter := range map[string]func(cp *checkpoint.Checkpoint){
		"another type of state": func(cp *checkpoint.Checkpoint) { cp.State = json.RawMessage(`["a"]`) },
		"another type inside": func(cp *checkpoint.Checkpoint) {
			cp.State = json.RawMessage(`{"Keys":"a"}`)
		},
		"a step too far": func(cp *checkpoint.Checkpoint) { cp.Step = 2 },
		"a step below":   func(cp *checkpoint.Checkpoint) { cp.Step = -1 },
		"round 0":        func(cp *checkpoint.Checkpoint) { cp.Round = 0 },
		"no such status": func(cp *checkpoint.Checkpoint) { cp.Status = "dreaming" },
		"no status":      func(cp *checkpoint.Checkpoint) { cp.Status = "" },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			before := s.put(alter)
			_, err := s.run(tasked(s.noting("a"), s.noting("b")))
			is(t, err, checkpoint.ErrCorrupt)
			if errors.Is(err, checkpoint.ErrStopped) || s.stored().Version != before.Version ||
				len(s.diary.read()) > 0 {
				t.Errorf("%v, stored %+v, run %v", err, s.stored(), s.diary.read())
			}
		})
	}
}

func TestAnotherResourcesTaskIsLeftAlone(t *testing.T) {
	s := newStage(t)
	before := s.put(func(*checkpoint.Checkpoint) {})
	c := fence.Claim{Resource: "stock", Token: 1, Issuer: "coordinator-1"}
	must.Succeed(t, s.journal.Raise(t.Context(), c))
	term, _ := elector.NewTerm(c, time.Now(), sessionTimeout, nothing{})
	defer func() { _ = term.Resign(context.Background()) }()
	for _, have := range []checkpoint.Checkpoint{{}, before} {
		_, err := tasked(s.noting("a"), s.noting("b")).Run(t.Context(), term, s.journal, have)
		is(t, err, checkpoint.ErrOtherResource)
	}
	_, err := checkpoint.Restart(t.Context(), term, s.journal, "nightly")
	is(t, err, checkpoint.ErrOtherResource)
	if s.stored().Version != before.Version || len(s.diary.read()) > 0 {
		t.Errorf("stored %+v, run %v", s.stored(), s.diary.read())
	}
}
