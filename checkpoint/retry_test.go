package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/checkpointtest"
	"github.com/ringfence/ringfence/checkpoint/taskevent"
)

// every makes a policy that waits one minute for each failure so far.
func every(attempts int) checkpoint.Retry {
	return checkpoint.Retry{Attempts: attempts, Backoff: func(failed int) time.Duration {
		return time.Duration(failed) * time.Minute
	}}
}

func TestAStepIsTriedAsOftenAsItsPolicySays(t *testing.T) {
	five := every(5)
	for name, c := range map[string]struct {
		task   checkpoint.Retry
		step   *checkpoint.Retry
		fails  int
		calls  int
		waited time.Duration
		stops  bool
	}{
		"no policy":                   {checkpoint.Retry{}, nil, 1, 1, 0, true},
		"the task's policy":           {every(3), nil, 2, 3, 3 * time.Minute, false},
		"the task's policy is spent":  {every(3), nil, 3, 3, 3 * time.Minute, true},
		"the step's policy":           {checkpoint.Retry{}, &five, 4, 5, 10 * time.Minute, false},
		"the step's policy is spent":  {every(9), &five, 5, 5, 10 * time.Minute, true},
		"the step's policy is: never": {every(9), &checkpoint.Retry{}, 1, 1, 0, true},
	} {
		for _, sync := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, synchronous %v", name, sync), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newStage(t)
					task := tasked(s.noting("before"), s.failing("fails", sync, c.fails, errBoom),
						s.noting("after"))
					task.Retry, task.Steps[1].Retry = c.task, c.step
					start := time.Now()
					if c.stops {
						is(t, s.stoppedBy(task, errBoom, c.calls), errBoom)
					} else {
						s.finishes(task)
					}
					if took := time.Since(start); took != c.waited || s.failed != c.calls {
						t.Errorf("called %d times in %v, want %d in %v", s.failed, took, c.calls, c.waited)
					}
					if len(s.effects()) > 0 != (sync && !c.stops) {
						t.Errorf("the effects are %v", s.effects())
					}
				})
			})
		}
	}
}

// failing makes a step that fails the first times it is called.
func (s *stage) failing(name string, sync bool, times int, with error) checkpoint.Step[done] {
	fail := func(d done) (done, error) {
		if s.failed++; s.failed <= times {
			return done{}, with
		}
		return d, nil
	}
	if sync {
		return checkpoint.Synchronous(name, func(
			_ context.Context, tx *checkpointtest.Tx, d done,
		) (done, error) {
			tx.Append(name)
			return fail(d)
		})
	}
	return checkpoint.Step[done]{Name: name, Run: func(
		_ context.Context, d done, _ checkpoint.Key,
	) (done, error) {
		return fail(d)
	}}
}

// stoppedBy fails the test unless the second of three steps stops the task with this error after
// this number of attempts.
func (s *stage) stoppedBy(
	task checkpoint.Task[done], cause error, attempts int,
) *checkpoint.StoppedError {
	s.Helper()
	var events []checkpoint.Event
	task.Notify = func(e checkpoint.Event) { events = append(events, e) }
	stopped := s.stops(task)
	f := s.stored().Failure
	if f.Step != "fails" || f.Attempts != attempts || f.Message != cause.Error() ||
		!f.At.Equal(time.Now()) {
		s.Errorf("recorded %+v", f)
	}
	if s.stored().Next() != "fails" || len(s.diary.read()) != 1 {
		s.Errorf("stopped at %q, having run %v", s.stored().Next(), s.diary.read())
	}
	if last := events[len(events)-1]; last.Kind != taskevent.Halted || last.Attempt != attempts ||
		last.Err != stopped.Cause {
		s.Errorf("the last event is %+v", last)
	}
	for _, part := range []string{"nightly", `"fails"`, "step 2 of 3",
		fmt.Sprint(attempts, " attempts"), cause.Error()} {
		if !strings.Contains(stopped.Error(), part) {
			s.Errorf("%q does not say %q", stopped, part)
		}
	}
	return stopped
}

func TestAStoppedTaskStaysStopped(t *testing.T) {
	s := newStage(t)
	task := tasked(s.noting("fails", errBoom))
	s.stops(task)
	before := s.stored()
	later := s.stops(task)
	if later.Cause != nil || !strings.Contains(later.Error(), "boom") ||
		s.stored().Version != before.Version || len(s.diary.read()) != 1 {
		t.Errorf("stopped with %v at version %d after version %d, having run %v", later,
			s.stored().Version, before.Version, s.diary.read())
	}
}

func TestRetryIfDecides(t *testing.T) {
	errFinal := errors.New("final")
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		task := tasked(s.noting("fails", errBoom, errBoom, errFinal, nil))
		task.Retry = every(100)
		task.Retry.If = func(err error) bool { return !errors.Is(err, errFinal) }
		is(t, s.stops(task), errFinal)
		if n := len(s.diary.read()); n != 3 || s.stored().Failure.Attempts != 3 {
			t.Errorf("called %d times, recorded %+v", n, s.stored().Failure)
		}
	})
}

// panicking makes a step that panics. The test looks for the name of this function in the stack.
func (s *stage) panicking(sync bool) checkpoint.Step[done] {
	fallOver := func() (done, error) {
		s.failed++
		panic("fell over")
	}
	if sync {
		return checkpoint.Synchronous("fails",
			func(_ context.Context, tx *checkpointtest.Tx, _ done) (done, error) {
				tx.Append("never")
				return fallOver()
			})
	}
	return checkpoint.Step[done]{Name: "fails",
		Run: func(context.Context, done, checkpoint.Key) (done, error) { return fallOver() }}
}

func TestAPanicIsRecordedWithItsStack(t *testing.T) {
	for _, sync := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t)
			task := tasked(s.noting("before"), s.panicking(sync), s.noting("after"))
			task.Retry = every(3)
			stopped := s.stoppedBy(task, errors.New("panic: fell over"), 1)
			p, ok := errors.AsType[*checkpoint.PanicError](stopped)
			if stack := s.stored().Failure.Stack; !ok || p.Value != "fell over" ||
				!strings.Contains(stack, "panicking") {
				t.Errorf("stopped with %v and the stack %q", stopped.Cause, stack)
			}
			equal(t, "effects", s.effects(), nil)
		})
	}
}

func TestAPanicIsRetriedOnlyIfThePolicySaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		task := tasked(s.panicking(false))
		task.Retry = every(3)
		task.Retry.If = func(error) bool { return true }
		if s.stops(task); s.failed != 3 {
			t.Errorf("called %d times", s.failed)
		}
	})
}

func TestAStateAboveTheLimitStopsAtOnce(t *testing.T) {
	for name, limit := range map[string]func(*stage, *checkpoint.Task[done]){
		"the task's":    func(_ *stage, t *checkpoint.Task[done]) { t.StateLimit = 10_000 },
		"the journal's": func(s *stage, _ *checkpoint.Task[done]) { s.journal.Limit = 10_000 },
	} {
		for _, sync := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, synchronous %v", name, sync), func(t *testing.T) {
				s := newStage(t)
				swell := done{[]string{strings.Repeat("x", 10_000)}}
				step := checkpoint.Step[done]{Name: "swell",
					Run: func(context.Context, done, checkpoint.Key) (done, error) { return swell, nil }}
				if sync {
					step = checkpoint.Synchronous("swell",
						func(_ context.Context, tx *checkpointtest.Tx, _ done) (done, error) {
							tx.Append("never")
							return swell, nil
						})
				}
				task := tasked(step)
				task.Retry = every(5)
				limit(s, &task)
				is(t, s.stops(task), checkpoint.ErrTooLarge)
				if s.stored().Failure.Attempts != 1 || len(s.effects()) > 0 {
					t.Errorf("recorded %+v, effects %v", s.stored().Failure, s.effects())
				}
			})
		}
	}
}

func TestAFailureIsRecordedWhereThereIsLittleRoom(t *testing.T) {
	s := newStage(t)
	s.journal.Limit = 10_000
	task := tasked(s.panicking(false))
	task.Start = done{[]string{strings.Repeat("x", 9_000)}}
	s.stops(task)
	if f := s.stored().Failure; f.Message != "panic: fell over" || f.Attempts != 1 {
		t.Errorf("recorded %+v", f)
	}
}
