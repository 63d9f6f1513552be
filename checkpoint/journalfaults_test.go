package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/checkpointtest"
	"github.com/ringfence/ringfence/checkpoint/taskevent"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
)

// faulty makes the next calls of op fail.
func (s *stage) faulty(op checkpointtest.Op, faults ...checkpointtest.Fault) {
	s.journal.Fail = func(at checkpointtest.Op, _ checkpoint.Checkpoint) (fault checkpointtest.Fault) {
		if at == op && len(faults) > 0 {
			fault, faults = faults[0], faults[1:]
		}
		return fault
	}
}

func repeated(f checkpointtest.Fault, n int) (all []checkpointtest.Fault) {
	for range n {
		all = append(all, f)
	}
	return all
}

// The step's policy is to try once, so an error of the journal must not count as an attempt.
func TestErrorsOfTheJournalUseUpNoAttempts(t *testing.T) {
	for _, fault := range []checkpointtest.Fault{checkpointtest.OutOfReach,
		checkpointtest.LostRequest} {
		for _, op := range []checkpointtest.Op{checkpointtest.TakeOver, checkpointtest.Publish,
			checkpointtest.Transact} {
			t.Run(fmt.Sprintf("%s, fault %d", op, fault), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newStage(t)
					s.faulty(op, repeated(fault, 20)...)
					task := tasked(s.noting("load"), appending("book"))
					interrupted := 0
					task.Notify = func(e checkpoint.Event) {
						if e.Kind == taskevent.Interrupted {
							interrupted++
						}
					}
					start := time.Now()
					s.finishes(task)
					equal(t, "asynchronous steps", s.diary.read(), []string{"nightly/1/1/load"})
					equal(t, "effects", s.effects(), []string{"book"})
					if took := time.Since(start); interrupted < 20 || took < 5*time.Second || took > time.Minute {
						t.Errorf("interrupted %d times in %v", interrupted, took)
					}
				})
			})
		}
	}
}

func TestALostReplyIsReadBack(t *testing.T) {
	for _, op := range []checkpointtest.Op{checkpointtest.Publish, checkpointtest.Transact} {
		for _, reading := range []checkpointtest.Fault{checkpointtest.None,
			checkpointtest.OutOfReach, checkpointtest.LostReply} {
			t.Run(fmt.Sprintf("%s, fault %d when it is read back", op, reading), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newStage(t)
					lost := 0
					s.journal.Fail = func(at checkpointtest.Op, _ checkpoint.Checkpoint) checkpointtest.Fault {
						switch {
						case at == op && lost == 0:
							lost++
							return checkpointtest.LostReply
						case at == checkpointtest.TakeOver && lost > 0 && lost < 5:
							lost++
							return reading
						}
						return checkpointtest.None
					}
					task := tasked(s.noting("load"), appending("book"), s.noting("send"))
					cp := s.finishes(task)
					equal(t, "asynchronous steps", s.diary.read(),
						[]string{"nightly/1/1/load", "nightly/1/1/send"})
					equal(t, "effects", s.effects(), []string{"book"})
					if cp.Version != 3 || lost < 2 {
						t.Errorf("ended at version %d, with %d faults", cp.Version, lost)
					}
				})
			})
		}
	}
}

// A synchronous step may run several times; one run lands.
func TestATransactionThatDidNotLandIsRunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.faulty(checkpointtest.Transact, checkpointtest.LostRequest, checkpointtest.OutOfReach,
			checkpointtest.LostReply)
		task := tasked(s.failing("book", true, 0, nil))
		s.finishes(task)
		if s.failed != 3 {
			t.Errorf("run %d times, want 3", s.failed)
		}
		equal(t, "effects", s.effects(), []string{"book"})
	})
}

func TestAStaleTokenIsNeverRetried(t *testing.T) {
	for _, sync := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t)
			term := s.term()
			task := tasked(s.noting("before"), s.failing("fails", sync, 100, errBoom))
			task.Retry = every(100)
			asked := 0
			s.journal.Fail = func(op checkpointtest.Op, _ checkpoint.Checkpoint) checkpointtest.Fault {
				if op != checkpointtest.Raise {
					asked++
				}
				return checkpointtest.None
			}
			task.Notify = func(e checkpoint.Event) {
				if e.Kind == taskevent.Began && e.Step == "fails" {
					s.term() // a newer leader
					asked = 0
				}
			}
			task.Steps[1] = s.failing("fails", sync, 0, nil)
			cp, err := task.Run(t.Context(), term, s.journal, checkpoint.Checkpoint{})
			is(t, err, fence.ErrStale, fence.ErrLost, fence.ErrSuperseded)
			is(t, context.Cause(term.Context()), fence.ErrSuperseded, fence.ErrStale)
			if errors.Is(err, checkpoint.ErrStopped) || asked > 1 || s.failed > 1 ||
				cp.Version != 1 || s.stored().Version != 1 {
				t.Errorf("%d calls of the journal after the end, run %d times, %v, stored %+v", asked,
					s.failed, err, s.stored())
			}
			equal(t, "effects", s.effects(), nil)
		})
	}
}

// A step may learn from a fenced store, for example through a guard, that its token is stale.
func TestAStepThatReturnsStaleEndsTheTerm(t *testing.T) {
	s := newStage(t)
	term := s.term()
	stale := &fence.Refusal{Reason: fence.ErrStale, Message: "token 33 is stale"}
	task := tasked(s.noting("fails", fmt.Errorf("insert: %w", stale)))
	task.Retry = every(100)
	_, err := task.Run(t.Context(), term, s.journal, checkpoint.Checkpoint{})
	is(t, err, fence.ErrStale, fence.ErrSuperseded)
	if cp := s.stored(); cp.Version != 0 || errors.Is(err, checkpoint.ErrStopped) {
		t.Errorf("%v, stored %+v", err, cp)
	}
}

// A step may use another resource, whose refusals say nothing about the task's term.
func TestAStepThatIsStaleOnAnotherResourceFails(t *testing.T) {
	foreign := &fence.Refusal{Reason: fence.ErrStale, Claim: fence.Claim{Resource: "stock", Token: 3},
		Message: "token 3 of stock is stale"}
	for _, sync := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t)
			term := s.term()
			task := tasked(s.failing("fails", sync, 100, foreign))
			task.Retry = every(3)
			_, err := task.Run(t.Context(), term, s.journal, checkpoint.Checkpoint{})
			is(t, err, checkpoint.ErrStopped, foreign)
			if s.failed != 3 || term.State() != fence.Active || s.stored().Status != checkpoint.Stopped {
				t.Errorf("ran %d times, the term is %v, stored %+v", s.failed, term.State(), s.stored())
			}
		})
	}
}

// A step's error counts as an attempt even if it looks like one of the journal.
func TestAStepsErrorIsNotTheJournals(t *testing.T) {
	foreign := &fence.Refusal{Reason: fence.ErrNotRaised,
		Claim:   fence.Claim{Resource: "stock", Token: 3},
		Message: "stock=3 does not lead"}
	for _, err := range []error{foreign, fence.ErrUnrevoked, checkpoint.ErrTransient,
		checkpoint.ErrUnknown} {
		for _, sync := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				task := tasked(s.failing("fails", sync, 100, err))
				task.Retry = every(3)
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				_, got := task.Run(ctx, s.term(), s.journal, checkpoint.Checkpoint{})
				is(t, got, checkpoint.ErrStopped, err)
				if s.failed != 3 {
					t.Errorf("ran %d times after %v, synchronous %v", s.failed, err, sync)
				}
			})
		}
	}
}

func TestAMarkThatWasLostIsRaisedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		// No Raise before the run.
		c := fence.Claim{Resource: orders, Token: 7, Issuer: "coordinator-1", Holder: "host-1"}
		term, _ := elector.NewTerm(c, time.Now(), sessionTimeout, nothing{})
		defer func() { _ = term.Resign(context.Background()) }()
		s.faulty(checkpointtest.Raise, checkpointtest.OutOfReach, checkpointtest.LostRequest)
		cp, err := tasked(s.noting("load"), appending("book")).Run(t.Context(), term, s.journal,
			checkpoint.Checkpoint{})
		if err != nil || cp.Status != checkpoint.Done {
			t.Errorf("%v, %+v", err, cp)
		}
	})
}

// Two processes break the rules and run one task in one term. They cannot both continue, however
// far the second one gets.
func TestASecondProcessInOneTermIsDetected(t *testing.T) {
	for _, until := range []string{"contested", "after"} {
		for _, sync := range []bool{false, true} {
			t.Run(fmt.Sprintf("until %s, synchronous %v", until, sync), func(t *testing.T) {
				s := newStage(t)
				term := s.term()
				task := tasked(s.noting("before"), s.failing("contested", sync, 0, nil), s.noting("after"))
				second := task
				ctx, cancel := context.WithCancelCause(t.Context())
				second.Notify = func(e checkpoint.Event) {
					if e.Kind == taskevent.Ended && e.Step == until {
						cancel(errBoom)
					}
				}
				task.Notify = func(e checkpoint.Event) {
					if e.Kind == taskevent.Began && e.Step == "contested" {
						_, _ = second.Run(ctx, term, s.journal, checkpoint.Checkpoint{})
					}
				}
				_, err := task.Run(t.Context(), term, s.journal, checkpoint.Checkpoint{})
				is(t, err, checkpoint.ErrConflict)
				if errors.Is(err, checkpoint.ErrStopped) || s.stored().Step != 2 &&
					until == "contested" || len(s.effects()) > 1 {
					t.Errorf("%v, stored %+v, effects %v", err, s.stored(), s.effects())
				}
			})
		}
	}
}

func TestRunSaysWhatMayHaveLanded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.faulty(checkpointtest.Publish, checkpointtest.HungReply)
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errBoom)
		defer cancel()
		cp, err := tasked(s.noting("load")).Run(ctx, s.term(), s.journal, checkpoint.Checkpoint{})
		is(t, err, errBoom, checkpoint.ErrUnknown)
		if cp.Version != 0 {
			t.Errorf("version %d is returned as durable without an answer", cp.Version)
		}
	})
}
