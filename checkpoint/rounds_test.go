package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/taskevent"
	"github.com/ringfence/ringfence/fence"
)

func TestStepsRunInOrderInEveryRound(t *testing.T) {
	s := newStage(t)
	task := tasked(s.noting("load"), appending("book"), s.noting("send"))
	task.Rounds = 3
	task.Start = done{[]string{"start"}}
	cp := s.finishes(task)
	equal(t, "asynchronous steps", s.diary.read(), []string{
		"nightly/1/1/load", "nightly/1/1/send", "nightly/1/2/load", "nightly/1/2/send",
		"nightly/1/3/load", "nightly/1/3/send",
	})
	equal(t, "synchronous steps", s.effects(), []string{"book", "book", "book"})
	equal(t, "state", s.state().Keys, []string{
		"start", "nightly/1/1/load", "book", "nightly/1/1/send", "nightly/1/2/load", "book",
		"nightly/1/2/send", "nightly/1/3/load", "book", "nightly/1/3/send",
	})
	want := checkpoint.Checkpoint{Version: 9, Run: 1, Round: 3, Rounds: 3, Step: 3, Token: s.token,
		Holder: "host-1", Resource: orders}
	if cp.Version != want.Version || cp.Run != want.Run || cp.Round != want.Round ||
		cp.Rounds != want.Rounds ||
		cp.Step != want.Step || cp.Token != want.Token || cp.Holder != want.Holder ||
		cp.Resource != want.Resource || cp.Next() != "" {
		t.Errorf("ended at %+v, want %+v", cp, want)
	}
	equal(t, "stored state", s.stored().State, cp.State)
}

func TestEveryStepBeginsAndEndsOnceInTheEvents(t *testing.T) {
	s := newStage(t)
	task := tasked(s.noting("load"), appending("book"))
	task.Rounds = 2
	var events []string
	task.Notify = func(e checkpoint.Event) {
		events = append(events, fmt.Sprintf("%s %s %d", e.Kind, e.Step, e.Checkpoint.Version))
	}
	s.finishes(task)
	equal(t, "events", events, []string{
		"took over load 0", "began load 0", "ended load 1", "began book 1", "ended book 2",
		"began load 2", "ended load 3", "began book 3", "ended book 4", "done  4",
	})
}

func TestADoneTaskIsLeftAlone(t *testing.T) {
	s := newStage(t)
	task := tasked(s.noting("load"))
	before := s.finishes(task)
	task.Steps = append(task.Steps, s.noting("send")) // even with one more step
	if after := s.finishes(task); after.Version != before.Version || len(s.diary.read()) != 1 {
		t.Errorf("version %d became %d, ran %v", before.Version, after.Version, s.diary.read())
	}
}

func TestForeverEndsWithTheTerm(t *testing.T) {
	s := newStage(t)
	term, keeper := s.lead()
	task := tasked(s.noting("poll"))
	task.Rounds = checkpoint.Forever
	task.Notify = func(e checkpoint.Event) {
		if e.Checkpoint.Round == 50 {
			keeper.Lose(fence.ErrDeposed)
		}
	}
	cp, err := task.Run(t.Context(), term, s.journal, checkpoint.Checkpoint{})
	is(t, err, fence.ErrLost, fence.ErrDeposed)
	if cp.Round != 50 || cp.Status != checkpoint.Running || cp.Version != s.stored().Version {
		t.Errorf("ended at %+v", cp)
	}
	s.bounded(task, 60)
}

// bounded runs a task without a last round until this round.
func (s *stage) bounded(task checkpoint.Task[done], round int64) {
	s.Helper()
	ctx, enough := context.WithCancelCause(s.Context())
	task.Notify = func(e checkpoint.Event) {
		if e.Checkpoint.Round >= round {
			enough(errBoom)
		}
	}
	cp, err := task.Run(ctx, s.term(), s.journal, checkpoint.Checkpoint{})
	is(s, err, errBoom)
	if cp.Round != round {
		s.Errorf("ended in round %d, want %d", cp.Round, round)
	}
}

// The number of rounds may change between two leaders.
func TestTheNumberOfRoundsMayChange(t *testing.T) {
	for _, c := range []struct{ before, after, ends int64 }{
		{checkpoint.Forever, 7, 7}, {10, 7, 7}, {5, 7, 7}, {checkpoint.Forever, 5, 5},
		{checkpoint.Forever, 2, 5}, // fewer than have been begun: the one that was begun is the last
		{10, 1, 5},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t)
			task := tasked(s.noting("a"), s.noting("b"))
			task.Rounds = c.before
			s.bounded(task, 5)
			task.Rounds = c.after
			ctx, cancel := context.WithCancelCause(t.Context())
			task.Notify = func(e checkpoint.Event) {
				if e.Checkpoint.Round > 20 {
					cancel(errors.New("it never ends"))
				}
			}
			cp, err := task.Run(ctx, s.term(), s.journal, checkpoint.Checkpoint{})
			if err != nil || cp.Status != checkpoint.Done || cp.Round != c.ends {
				t.Errorf("%d rounds became %d in the fifth: ended in round %d with %v, want %d",
					c.before, c.after, cp.Round, err, c.ends)
			}
		})
	}
}

func TestACurrentCopyIsNotReadAgain(t *testing.T) {
	s := newStage(t)
	task := tasked(s.noting("a", errBoom, nil), s.noting("b"))
	task.Rounds = 2
	s.stops(task)
	stopped := s.stored()
	if _, err := checkpoint.Resume(t.Context(), s.term(), s.journal, "nightly"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		have     checkpoint.Checkpoint
		reloaded bool
	}{{s.stored(), false}, {stopped, true}} {
		var took *taskevent.TakeOver
		term, keeper := s.lead()
		task.Notify = func(e checkpoint.Event) {
			if e.Kind == taskevent.TookOver {
				took = &e.TakeOver
				keeper.Lose(fence.ErrDeposed)
			}
		}
		_, err := task.Run(t.Context(), term, s.journal, c.have)
		is(t, err, fence.ErrDeposed)
		if took == nil || took.Reloaded != c.reloaded {
			t.Errorf("with a copy of version %d of %d: %+v", c.have.Version, s.stored().Version, took)
		}
	}
}
