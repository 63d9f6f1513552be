package checkpoint_test

import (
	"context"
	"fmt"
	"slices"
	"testing/synctest"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/checkpointtest"
	"github.com/ringfence/ringfence/checkpoint/unfinished"
)

// step makes a step whose effect is its position in the run. It passes two boundaries.
func (s *succession) step(name string, sync, asks bool) checkpoint.Step[done] {
	if sync {
		return checkpoint.Synchronous(name, func(
			ctx context.Context, tx *checkpointtest.Tx, d done,
		) (done, error) {
			l := s.of(ctx)
			s.reach(l)
			place := fmt.Sprintf("%s at %d", name, len(d.Keys))
			tx.Append(place)
			s.reach(l)
			return done{append(slices.Clone(d.Keys), place)}, l.mishap()
		})
	}
	step := checkpoint.Step[done]{Name: name,
		Run: func(ctx context.Context, d done, _ checkpoint.Key) (done, error) {
			l := s.of(ctx)
			s.reach(l)
			place := fmt.Sprintf("%s at %d", name, len(d.Keys))
			s.mu.Lock()
			s.places[place]++
			s.mu.Unlock()
			s.reach(l)
			return done{append(slices.Clone(d.Keys), place)}, l.mishap()
		}}
	if asks {
		step.Ask = func(context.Context, done, checkpoint.Key) (unfinished.Decision, done, error) {
			return unfinished.RunAgain, done{}, nil
		}
	}
	return step
}

type leaderKey struct{}

func (s *succession) of(ctx context.Context) *leader { return ctx.Value(leaderKey{}).(*leader) }

// mishap returns an error of the step in one call of ten.
func (l *leader) mishap() error {
	if l.rnd.IntN(10) == 0 {
		return errBoom
	}
	return nil
}

// reach passes a boundary. If the leader ends here, it stays paused until it is woken.
func (s *succession) reach(l *leader) {
	if s.pass(l) {
		s.mu.Lock()
		s.asleep = append(s.asleep, l)
		s.mu.Unlock()
		close(l.ended)
		<-l.awake
	}
}

// fail passes a boundary in a call of the journal.
func (s *succession) fail(_ checkpointtest.Op, cp checkpoint.Checkpoint) checkpointtest.Fault {
	s.mu.Lock()
	l := s.leaders[cp.Token]
	s.mu.Unlock()
	switch {
	case l == nil: // not a publish
		return checkpointtest.None
	case l.left > 1 && l.rnd.IntN(4) == 0: // noise
		return []checkpointtest.Fault{checkpointtest.OutOfReach, checkpointtest.LostRequest,
			checkpointtest.LostReply}[l.rnd.IntN(3)]
	case l.left != 1 || l.fault == checkpointtest.None:
		s.reach(l)
		return checkpointtest.None
	}
	s.pass(l)
	close(l.ended)
	return l.fault
}

// pass counts a boundary and reports whether the leader ends here. It checks what is stored, and
// sometimes wakes an earlier leader.
func (s *succession) pass(l *leader) (ends bool) {
	s.look()
	l.left--
	if l.left > 0 && l.rnd.IntN(4) == 0 {
		if s.wake() {
			synctest.Wait() // until the earlier leader is done
			s.look()
		}
	}
	return l.left == 0
}

// wake lets one paused leader continue.
func (s *succession) wake() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.asleep) == 0 {
		return false
	}
	close(s.asleep[0].awake)
	s.asleep = s.asleep[1:]
	return true
}
