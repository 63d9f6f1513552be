package checkpoint_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/checkpointtest"
	"github.com/ringfence/ringfence/checkpoint/taskevent"
	"github.com/ringfence/ringfence/checkpoint/unfinished"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
)

func TestASuspendedTermPausesBetweenSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		term, keeper := s.lead()
		task := tasked(s.noting("a"), appending("b"), s.noting("c"))
		var paused []string
		task.Notify = func(e checkpoint.Event) {
			switch e.Kind {
			case taskevent.Began:
				keeper.Suspend() // does not disturb a running step
			case taskevent.Paused:
				paused = append(paused, e.Step)
				if len(s.effects())+len(s.diary.read()) != int(s.stored().Version) {
					t.Errorf("paused with %v and %v at version %d", s.effects(), s.diary.read(),
						s.stored().Version)
				}
			}
		}
		start := time.Now()
		finished := make(chan error, 1)
		go func() {
			_, err := task.Run(t.Context(), term, s.journal, checkpoint.Checkpoint{})
			finished <- err
		}()
		for n := range int64(3) {
			time.Sleep(time.Hour)
			synctest.Wait()
			if v := s.stored().Version; v != n+1 {
				t.Errorf("suspended for an hour in step %d: version %d", n+1, v)
			}
			keeper.Confirm(time.Now())
		}
		if err := <-finished; err != nil || time.Since(start) != 3*time.Hour {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		equal(t, "paused before", paused, []string{"b", "c"})
	})
}

func TestASuspendedTermPausesBetweenAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		term, keeper := s.lead()
		task := tasked(s.noting("fails", errBoom))
		task.Retry = every(2)
		task.Notify = func(e checkpoint.Event) {
			if e.Kind == taskevent.Retrying {
				keeper.Suspend()
				time.AfterFunc(time.Hour, func() { keeper.Confirm(time.Now()) })
			}
		}
		start := time.Now()
		if _, err := task.Run(t.Context(), term, s.journal, checkpoint.Checkpoint{}); err != nil ||
			time.Since(start) != time.Hour {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

// The journal may fail for so long that the term is suspended meanwhile.
func TestAStepThatTheJournalHasDelayedWaitsForTheTerm(t *testing.T) {
	for op, fault := range map[checkpointtest.Op]checkpointtest.Fault{
		checkpointtest.Publish:  checkpointtest.None, // of the start
		checkpointtest.Transact: checkpointtest.OutOfReach,
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t)
			term, keeper := s.lead()
			calls, early := 0, 0
			run := func(d done) (done, error) {
				if calls++; term.State() != fence.Active {
					early++
				}
				return d, nil
			}
			step := checkpoint.Step[done]{Name: "pay", Unfinished: unfinished.Stop,
				Run: func(_ context.Context, d done, _ checkpoint.Key) (done, error) { return run(d) }}
			if op == checkpointtest.Transact {
				step = checkpoint.Synchronous("book",
					func(_ context.Context, _ *checkpointtest.Tx, d done) (done, error) { return run(d) })
			}
			failed := false
			s.journal.Fail = func(at checkpointtest.Op, _ checkpoint.Checkpoint) checkpointtest.Fault {
				if at != op || failed {
					return checkpointtest.None
				}
				failed = true
				keeper.Suspend()
				time.AfterFunc(time.Hour, func() { keeper.Confirm(time.Now()) })
				return fault
			}
			start := time.Now()
			cp, err := tasked(step).Run(t.Context(), term, s.journal, checkpoint.Checkpoint{})
			if err != nil || cp.Status != checkpoint.Done || time.Since(start) != time.Hour {
				t.Errorf("%s: %v, %+v after %v", op, err, cp, time.Since(start))
			}
			if early > 0 {
				t.Errorf("%s: %d of %d calls began while the term was suspended", op, early, calls)
			}
		})
	}
}

// until makes a step that works until its context ends and then returns end(cause).
func until(sync bool, causes chan<- error, end func(cause error) error) checkpoint.Step[done] {
	work := func(ctx context.Context, d done) (done, error) {
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return d, end(context.Cause(ctx))
	}
	if sync {
		return checkpoint.Synchronous("waits",
			func(ctx context.Context, tx *checkpointtest.Tx, d done) (done, error) {
				tx.Append("never")
				return work(ctx, d)
			})
	}
	return checkpoint.Step[done]{Name: "waits",
		Run: func(ctx context.Context, d done, _ checkpoint.Key) (done, error) { return work(ctx, d) }}
}

func TestTheRunningStepSeesWhyTheTermEnded(t *testing.T) {
	ends := map[string]func(*fence.Term, *elector.Keeper, context.CancelCauseFunc) (cause error){
		"deposed": func(_ *fence.Term, k *elector.Keeper, _ context.CancelCauseFunc) error {
			k.Lose(fence.ErrDeposed)
			return fence.ErrDeposed
		},
		"expired": func(*fence.Term, *elector.Keeper, context.CancelCauseFunc) error { // nobody confirms
			return fence.ErrExpired
		},
		"superseded": func(t *fence.Term, _ *elector.Keeper, _ context.CancelCauseFunc) error {
			t.Supersede(fence.ErrStale)
			return fence.ErrSuperseded
		},
		"resigned": func(t *fence.Term, _ *elector.Keeper, _ context.CancelCauseFunc) error {
			_ = t.Resign(context.Background())
			return fence.ErrResigned
		},
		"cancelled": func(_ *fence.Term, _ *elector.Keeper, cancel context.CancelCauseFunc) error {
			cancel(errBoom)
			return errBoom
		},
	}
	returns := map[string]func(error) error{
		"the cause":   func(cause error) error { return cause },
		"its own":     func(error) error { return errors.New("interrupted") },
		"no error":    func(error) error { return nil },
		"a cancelled": func(error) error { return context.Canceled },
	}
	for how, end := range ends {
		for what, returned := range returns {
			for _, sync := range []bool{false, true} {
				t.Run(how+", step returns "+what, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						s := newStage(t)
						causes := make(chan error, 10)
						task := tasked(s.noting("before"), until(sync, causes, returned))
						task.Retry = every(9)
						s.endsInStep(task, end, causes)
					})
				})
			}
		}
	}
}

// endsInStep fails the test unless the second step sees why the term ended, Run returns the same
// cause, and only the first step is done.
func (s *stage) endsInStep(
	task checkpoint.Task[done], end func(*fence.Term, *elector.Keeper, context.CancelCauseFunc) error,
	causes chan error,
) {
	s.Helper()
	term, keeper := s.lead()
	ctx, cancel := context.WithCancelCause(s.Context())
	defer cancel(nil)
	finished := make(chan error, 1)
	go func() {
		_, err := task.Run(ctx, term, s.journal, checkpoint.Checkpoint{})
		finished <- err
	}()
	synctest.Wait()
	want := end(term, keeper, cancel)
	is(s, <-causes, want)
	err := <-finished
	is(s, err, want)
	cp := s.stored()
	if cp.Version != 1 || cp.Status != checkpoint.Running ||
		errors.Is(err, checkpoint.ErrStopped) || len(causes) > 0 || len(s.effects()) > 0 {
		s.Errorf("ended with %v, stored %+v, effects %v, called %d times more", err, cp,
			s.effects(), len(causes))
	}
}

// tireless publishes even if the context ends, as if the bytes were already on their way.
type tireless struct{ *checkpointtest.Memory }

func (j tireless) Publish(ctx context.Context, c fence.Claim, cp checkpoint.Checkpoint) error {
	return j.Memory.Publish(context.WithoutCancel(ctx), c, cp)
}

func TestAStepThatFailsAtTheEndIsNotStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		term, keeper := s.lead()
		task := tasked(until(false, make(chan error, 1), func(error) error { return errBoom }))
		task.Notify = func(e checkpoint.Event) {
			if e.Kind == taskevent.Began {
				time.AfterFunc(time.Second, func() { keeper.Lose(fence.ErrDeposed) })
			}
		}
		_, err := task.Run(t.Context(), term, tireless{s.journal}, checkpoint.Checkpoint{})
		is(t, err, fence.ErrDeposed)
		if s.stored().Version != 0 {
			t.Errorf("%v, stored %+v", err, s.stored())
		}
	})
}

// A step may fail at the end of the term before its context ends, for example because a connection
// that ends with the term was faster. The test runs often, because the context is not always late.
func TestAStepThatFailsBeforeItsContextHasEndedIsNotStopped(t *testing.T) {
	type work = func(done) (done, error)
	for name, step := range map[string]func(fail work) checkpoint.Step[done]{
		"asynchronous": func(fail work) checkpoint.Step[done] {
			run := func(_ context.Context, d done, _ checkpoint.Key) (done, error) { return fail(d) }
			return checkpoint.Step[done]{Name: "b", Run: run}
		},
		"synchronous": func(fail work) checkpoint.Step[done] {
			return checkpoint.Synchronous("b",
				func(_ context.Context, _ *checkpointtest.Tx, d done) (done, error) { return fail(d) })
		},
		"asking": func(fail work) checkpoint.Step[done] {
			return checkpoint.Step[done]{
				Name: "b", Run: func(_ context.Context, d done, _ checkpoint.Key) (done, error) {
					return d, nil
				},
				Ask: func(_ context.Context, d done, _ checkpoint.Key) (unfinished.Decision, done, error) {
					d, err := fail(d)
					return unfinished.RunAgain, d, err
				},
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			for range 200 {
				s := newStage(t)
				before := s.put(func(cp *checkpoint.Checkpoint) {
					if name == "asking" {
						cp.Status = checkpoint.Started
					}
				})
				term, keeper := s.lead()
				b := step(func(d done) (done, error) {
					keeper.Lose(fence.ErrDeposed)
					return d, errBoom
				})
				_, err := tasked(s.noting("a"), b).Run(t.Context(), term, s.journal, checkpoint.Checkpoint{})
				is(t, err, fence.ErrDeposed)
				if cp := s.stored(); cp.Version != before.Version || errors.Is(err, checkpoint.ErrStopped) {
					t.Fatalf("%v, stored %+v", err, cp)
				}
			}
		})
	}
}

func TestEveryWaitEndsWithTheTerm(t *testing.T) {
	for name, wait := range map[string]func(*stage, *checkpoint.Task[done]){
		"for another attempt": func(s *stage, task *checkpoint.Task[done]) {
			task.Steps = []checkpoint.Step[done]{s.failing("fails", false, 1e9, errBoom)}
			task.Retry = every(1e9)
		},
		"for the journal to take": func(s *stage, _ *checkpoint.Task[done]) {
			s.faulty(checkpointtest.TakeOver, repeated(checkpointtest.OutOfReach, 1e6)...)
		},
		"for the journal to publish": func(s *stage, _ *checkpoint.Task[done]) {
			s.faulty(checkpointtest.Publish, repeated(checkpointtest.OutOfReach, 1e6)...)
		},
		"for the journal to answer": func(s *stage, _ *checkpoint.Task[done]) {
			s.faulty(checkpointtest.Publish, checkpointtest.HungRequest)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				term, keeper := s.lead()
				task := tasked(s.noting("a"))
				wait(s, &task)
				time.AfterFunc(time.Hour, func() { keeper.Lose(fence.ErrDeposed) })
				start := time.Now()
				_, err := task.Run(t.Context(), term, s.journal, checkpoint.Checkpoint{})
				is(t, err, fence.ErrDeposed)
				if time.Since(start) != time.Hour || s.stored().Version != 0 {
					t.Errorf("ended after %v with %+v stored", time.Since(start), s.stored())
				}
			})
		})
	}
}

func TestALostTermRunsNothing(t *testing.T) {
	s := newStage(t)
	term, keeper := s.lead()
	keeper.Lose(fence.ErrDeposed)
	_, err := tasked(s.noting("a")).Run(t.Context(), term, s.journal, checkpoint.Checkpoint{})
	is(t, err, fence.ErrDeposed, fence.ErrLost)
	equal(t, "steps", s.diary.read(), nil)
}

func TestAJournalThatWasSetBackRunsNothing(t *testing.T) {
	s := newStage(t)
	last := s.finishes(tasked(s.noting("a")))
	empty := newStage(t)
	_, err := tasked(s.noting("a")).Run(t.Context(), empty.term(), empty.journal, last)
	is(t, err, checkpoint.ErrConflict)
	equal(t, "steps", s.diary.read(), []string{"nightly/1/1/a"})
}

// Nobody may forget a task that runs. If somebody does, it must not begin again.
func TestATaskThatIsForgottenWhileItRunsDoesNotBeginAgain(t *testing.T) {
	for name, sync := range map[string]bool{"asynchronous": false, "synchronous": true} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			term := s.term()
			forget := func(d done) (done, error) {
				return d, s.journal.Forget(t.Context(), term.Claim(), "nightly")
			}
			second := checkpoint.Step[done]{Name: "b",
				Run: func(_ context.Context, d done, _ checkpoint.Key) (done, error) { return forget(d) }}
			if sync {
				second = checkpoint.Synchronous("b",
					func(_ context.Context, tx *checkpointtest.Tx, d done) (done, error) {
						tx.Append("never")
						return forget(d)
					})
			}
			task := tasked(s.noting("a"), second, s.noting("c"))
			last, err := task.Run(t.Context(), term, s.journal, checkpoint.Checkpoint{})
			is(t, err, checkpoint.ErrConflict)
			if last.Version != 1 {
				t.Errorf("the last checkpoint is %+v", last)
			}
			_, err = task.Run(t.Context(), s.term(), s.journal, last) // the next one, with its copy
			is(t, err, checkpoint.ErrConflict)
			equal(t, "steps", s.diary.read(), []string{"nightly/1/1/a"})
			equal(t, "effects", s.effects(), nil)
			if s.stored().Version != 0 {
				t.Errorf("stored: %+v", s.stored())
			}
		})
	}
}
