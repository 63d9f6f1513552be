package checkpoint_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/checkpointtest"
	"github.com/ringfence/ringfence/checkpoint/taskevent"
	"github.com/ringfence/ringfence/fence"
)

// landsLate is a journal that delays the first publish or transaction: the caller gets ErrUnknown,
// and the write lands just before the next one.
type landsLate struct {
	*checkpointtest.Memory
	late func() // nil: nothing is on its way
	lost int
}

func (l *landsLate) lose(land func()) error {
	l.lost++
	l.late = land
	return checkpoint.ErrUnknown
}

func (l *landsLate) arrive() {
	if l.late != nil {
		l.late()
		l.late = nil
	}
}

func (l *landsLate) Publish(ctx context.Context, c fence.Claim, cp checkpoint.Checkpoint) error {
	if l.lost == 0 {
		return l.lose(func() { _ = l.Memory.Publish(ctx, c, cp) })
	}
	l.arrive()
	return l.Memory.Publish(ctx, c, cp)
}

func (l *landsLate) Transact(
	ctx context.Context, c fence.Claim,
	work func(context.Context, *checkpointtest.Tx) (checkpoint.Checkpoint, error),
) error {
	if l.lost > 0 {
		l.arrive()
		return l.Memory.Transact(ctx, c, work)
	}
	return l.Memory.Transact(ctx, c, func(
		ctx context.Context, tx *checkpointtest.Tx,
	) (checkpoint.Checkpoint, error) {
		cp, err := work(ctx, tx)
		if err != nil {
			return cp, err
		}
		first := *tx
		return cp, l.lose(func() {
			_ = l.Memory.Transact(ctx, c, func(
				_ context.Context, tx *checkpointtest.Tx,
			) (checkpoint.Checkpoint, error) {
				*tx = first
				return cp, nil
			})
		})
	})
}

// A publish may land after the leader has read back and not found it. The leader recognizes it as
// its own, and its content counts.
func TestARequestThatLandsLateIsRecognized(t *testing.T) {
	for _, sync := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t)
			calls := 0
			count := func() done { calls++; return done{[]string{fmt.Sprint("call ", calls)}} }
			step := checkpoint.Step[done]{Name: "once",
				Run: func(context.Context, done, checkpoint.Key) (done, error) { return count(), nil }}
			if sync {
				step = checkpoint.Synchronous("once",
					func(_ context.Context, tx *checkpointtest.Tx, _ done) (done, error) {
						d := count()
						tx.Append(d.Keys[0])
						return d, nil
					})
			}
			cp, err := tasked(step, s.noting("next")).Run(t.Context(), s.term(),
				&landsLate{Memory: s.journal}, checkpoint.Checkpoint{})
			if err != nil || cp.Status != checkpoint.Done {
				t.Fatalf("%v, %+v", err, cp)
			}
			equal(t, "state", s.state().Keys, []string{"call 1", "nightly/1/1/next"})
			if effects := s.effects(); sync &&
				(len(effects) != 1 || effects[0] != "call 1" || calls != 2) || !sync && calls != 1 {
				t.Errorf("called %d times, with the effects %v", calls, effects)
			}
		})
	}
}

// A step may fail because its earlier attempt has landed meanwhile: its INSERT finds the row of
// that one.
func TestAFailureByAnAttemptThatLandsLateDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		journal, calls := &landsLate{Memory: s.journal}, 0
		step := checkpoint.Synchronous("once", func(
			_ context.Context, tx *checkpointtest.Tx, _ done,
		) (done, error) {
			if calls++; calls > 1 {
				return done{}, errBoom
			}
			tx.Append("booked")
			return done{[]string{"booked"}}, nil
		})
		cp, err := tasked(step, s.noting("next")).Run(t.Context(), s.term(), journal,
			checkpoint.Checkpoint{})
		if err != nil || cp.Status != checkpoint.Done || calls != 2 {
			t.Fatalf("%v, %+v, called %d times", err, cp, calls)
		}
		equal(t, "state", s.state().Keys, []string{"booked", "nightly/1/1/next"})
		equal(t, "effects", s.effects(), []string{"booked"})
	})
}

// A failure of the step counts if its earlier attempt has not landed.
func TestAFailureAfterAnAttemptThatIsLostCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.faulty(checkpointtest.Transact, checkpointtest.LostRequest)
		calls := 0
		stopped := s.stops(tasked(checkpoint.Synchronous("once",
			func(_ context.Context, _ *checkpointtest.Tx, _ done) (done, error) {
				if calls++; calls > 1 {
					return done{}, errBoom
				}
				return done{}, nil
			})))
		is(t, stopped, errBoom)
		if calls != 2 {
			t.Errorf("called %d times", calls)
		}
	})
}

// lateAt is a journal whose first COMMIT gets no answer, and lands just before the call that on
// names: the n-th transaction, or the n-th publish.
type lateAt struct {
	landsLate
	on         checkpointtest.Op
	n          int
	begun, own int
}

func (l *lateAt) reached(op checkpointtest.Op, n int) {
	if l.on == op && l.n == n {
		l.arrive()
	}
}

func (l *lateAt) Publish(ctx context.Context, c fence.Claim, cp checkpoint.Checkpoint) error {
	l.own++
	l.reached(checkpointtest.Publish, l.own)
	return l.Memory.Publish(ctx, c, cp)
}

func (l *lateAt) Transact(
	ctx context.Context, c fence.Claim,
	work func(context.Context, *checkpointtest.Tx) (checkpoint.Checkpoint, error),
) error {
	if l.begun++; l.begun == 1 {
		return l.landsLate.Transact(ctx, c, work)
	}
	l.reached(checkpointtest.Transact, l.begun)
	return l.Memory.Transact(ctx, c, work)
}

// A step may fail after an attempt whose answer was lost. That one may land when the step's policy
// has it attempted again, or when the task is about to stop. Then the step has ended.
func TestAnAttemptThatLandsAfterAFailureCounts(t *testing.T) {
	for name, c := range map[string]struct {
		on       checkpointtest.Op
		n        int
		attempts int
		fails    int // the calls after the first one that fail
	}{
		"before the next attempt commits": {checkpointtest.Transact, 3, 3, 1},
		"before the next attempt fails":   {checkpointtest.Transact, 3, 3, 2},
		"before the last attempt fails":   {checkpointtest.Transact, 3, 2, 2},
		"before the task is stopped":      {checkpointtest.Publish, 1, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				calls := 0
				task := tasked(checkpoint.Synchronous("once",
					func(_ context.Context, tx *checkpointtest.Tx, _ done) (done, error) {
						if calls++; calls > 1 && calls <= 1+c.fails {
							return done{}, errBoom
						}
						call := fmt.Sprint("call ", calls)
						tx.Append(call)
						return done{[]string{call}}, nil
					}), s.noting("next"))
				task.Retry = every(c.attempts)
				ended := 0
				task.Notify = func(e checkpoint.Event) {
					if e.Kind == taskevent.Ended && e.Step == "once" {
						ended++
					}
				}
				j := &lateAt{landsLate: landsLate{Memory: s.journal}, on: c.on, n: c.n}
				cp, err := task.Run(t.Context(), s.term(), j, checkpoint.Checkpoint{})
				if err != nil || cp.Status != checkpoint.Done || ended != 1 {
					t.Fatalf("%v, %+v, ended %d times", err, cp, ended)
				}
				equal(t, "state", s.state().Keys, []string{"call 1", "nightly/1/1/next"})
				equal(t, "effects", s.effects(), []string{"call 1"})
			})
		})
	}
}
