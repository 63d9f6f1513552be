package checkpoint_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/stepchange"
	"github.com/ringfence/ringfence/checkpoint/unfinished"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
)

// cutOff runs a task until the step "send" runs, and then ends the leader.
func (s *stage) cutOff(task checkpoint.Task[done]) {
	s.Helper()
	term, keeper := s.lead()
	i := slices.IndexFunc(task.Steps, func(s checkpoint.Step[done]) bool { return s.Name == "send" })
	task.Steps = slices.Clone(task.Steps)
	task.Steps[i].Run = func(ctx context.Context, d done, key checkpoint.Key) (done, error) {
		s.diary.note(key)
		keeper.Lose(fence.ErrExpired)
		<-ctx.Done()
		return d, nil
	}
	_, err := task.Run(s.Context(), term, s.journal, checkpoint.Checkpoint{})
	is(s, err, fence.ErrExpired)
}

func (s *stage) sending(alter func(*checkpoint.Step[done])) checkpoint.Task[done] {
	task := tasked(s.noting("load"), s.noting("send"), s.noting("report"))
	alter(&task.Steps[1])
	return task
}

func TestAStepThatMayBeRunAgainRecordsNoStart(t *testing.T) {
	s := newStage(t)
	task := s.sending(func(*checkpoint.Step[done]) {})
	s.cutOff(task)
	if cp := s.stored(); cp.Version != 1 || cp.Status != checkpoint.Running {
		t.Errorf("stored %+v", cp)
	}
	s.finishes(task)
	equal(t, "run", s.diary.read(), []string{"nightly/1/1/load", "nightly/1/1/send",
		"nightly/1/1/send", "nightly/1/1/report"})
}

func TestAnUnfinishedStepStopsTheTask(t *testing.T) {
	s := newStage(t)
	task := s.sending(func(step *checkpoint.Step[done]) { step.Unfinished = unfinished.Stop })
	s.cutOff(task)
	if cp := s.stored(); cp.Version != 2 || cp.Status != checkpoint.Started || cp.Next() != "send" {
		t.Errorf("stored %+v", cp)
	}
	stopped := s.stops(task)
	if f := s.stored().Failure; f.Step != "send" || f.Attempts != 0 ||
		!strings.Contains(stopped.Error(), "may have run") {
		t.Errorf("%v, recorded %+v", stopped, f)
	}
	s.stops(task)
	equal(t, "run", s.diary.read(), []string{"nightly/1/1/load", "nightly/1/1/send"})
	if _, err := checkpoint.Resume(t.Context(), s.term(), s.journal, "nightly"); err != nil {
		t.Fatal(err)
	}
	s.cutOff(task) // unfinished once more
	s.stops(task)
	if _, err := checkpoint.Resume(t.Context(), s.term(), s.journal, "nightly"); err != nil {
		t.Fatal(err)
	}
	s.finishes(task)
	equal(t, "run", s.diary.read(), []string{"nightly/1/1/load", "nightly/1/1/send",
		"nightly/1/1/send", "nightly/1/1/send", "nightly/1/1/report"})
}

func TestAskIsNotCalledForAStepThatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		task := s.sending(func(step *checkpoint.Step[done]) {
			*step = s.noting("send", errBoom, errBoom, nil) // attempts in one term need no asking either
			step.Unfinished = unfinished.Stop
			step.Ask = func(context.Context, done, checkpoint.Key) (unfinished.Decision, done, error) {
				t.Error("asked")
				return unfinished.Stop, done{}, nil
			}
		})
		task.Retry = every(3)
		if cp := s.finishes(task); cp.Version != 4 {
			t.Errorf("ended at version %d, want one for each step and one for a start", cp.Version)
		}
	})
}

func TestAskDecidesAboutAnUnfinishedStep(t *testing.T) {
	const load, send, report = "nightly/1/1/load", "nightly/1/1/send", "nightly/1/1/report"
	for name, c := range map[string]struct {
		answer unfinished.Decision
		err    error
		run    []string // after the leader that was cut off
		state  []string // nil: the task stops
		says   string
	}{
		"finished":  {unfinished.Finished, nil, []string{report}, []string{load, "asked", report}, ""},
		"run again": {unfinished.RunAgain, nil, []string{send, report}, []string{load, send, report}, ""},
		"stop":      {unfinished.Stop, nil, nil, nil, "may have run"},
		"an error":  {unfinished.Finished, errBoom, nil, nil, "boom"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			task := s.sending(func(step *checkpoint.Step[done]) {
				step.Ask = func(
					_ context.Context, d done, key checkpoint.Key,
				) (unfinished.Decision, done, error) {
					if key.String() != send || len(d.Keys) != 1 {
						t.Errorf("asked about %s with %v", key, d)
					}
					return c.answer, done{append(d.Keys, "asked")}, c.err
				}
			})
			s.cutOff(task)
			if c.state != nil {
				s.finishes(task)
				equal(t, "state", s.state().Keys, c.state)
			} else if stopped := s.stops(task); !strings.Contains(s.stored().Failure.Message,
				c.says) || !strings.Contains(stopped.Error(), "send") {
				t.Errorf("stopped with %v", stopped)
			}
			equal(t, "run", s.diary.read(), append([]string{load, send}, c.run...))
		})
	}
}

func TestAskThatPanicsStopsTheTask(t *testing.T) {
	s := newStage(t)
	task := s.sending(func(step *checkpoint.Step[done]) {
		step.Ask = func(context.Context, done, checkpoint.Key) (unfinished.Decision, done, error) {
			panic("whom?")
		}
	})
	s.cutOff(task)
	s.stops(task)
	if f := s.stored().Failure; !strings.Contains(f.Message, "whom?") || f.Stack == "" {
		t.Errorf("recorded %+v", f)
	}
}

func TestAskWhoseResultIsTooLargeStopsTheTask(t *testing.T) {
	s := newStage(t)
	task := s.sending(func(step *checkpoint.Step[done]) {
		step.Ask = func(context.Context, done, checkpoint.Key) (unfinished.Decision, done, error) {
			return unfinished.Finished, done{[]string{strings.Repeat("x", 1000)}}, nil
		}
	})
	task.StateLimit = 1000
	s.cutOff(task)
	is(t, s.stops(task), checkpoint.ErrTooLarge)
}

func TestAskEndsWithTheTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		var keeper *elector.Keeper
		task := s.sending(func(step *checkpoint.Step[done]) {
			step.Ask = func(
				ctx context.Context, d done, _ checkpoint.Key,
			) (unfinished.Decision, done, error) {
				keeper.Lose(fence.ErrDeposed)
				<-ctx.Done()
				return unfinished.Finished, d, context.Cause(ctx)
			}
		})
		s.cutOff(task)
		var term *fence.Term
		term, keeper = s.lead()
		_, err := task.Run(t.Context(), term, s.journal, checkpoint.Checkpoint{})
		is(t, err, fence.ErrDeposed)
		if cp := s.stored(); cp.Status != checkpoint.Started || errors.Is(err, checkpoint.ErrStopped) {
			t.Errorf("%v, stored %+v", err, cp)
		}
	})
}

// If the next step changes, a recorded start does not count for the new one.
func TestARecordedStartIsForgottenWhenTheStepChanges(t *testing.T) {
	for name, way := range map[string]stepsChanged{
		"restart": stepchange.Restart,
		"map":     stepchange.Map(map[string]string{"send": "post"}),
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.cutOff(s.sending(func(step *checkpoint.Step[done]) { step.Unfinished = unfinished.Stop }))
			task := tasked(s.noting("load"), s.noting("post"), s.noting("report"))
			task.Steps[1].Unfinished = unfinished.Stop
			task.OnStepsChanged = way
			if name == "restart" {
				s.finishes(task)
				return
			}
			s.stops(task) // it is the same step under another name
		})
	}
}
