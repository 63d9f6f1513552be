package checkpoint

import (
	"context"
	"sync"
	"time"

	"github.com/ringfence/ringfence/checkpoint/taskevent"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
)

// standby is an elector that follows the checkpoint while it campaigns, so that the new leader
// already has it.
type standby struct {
	fence.Elector
	journal  Journal
	observer elector.Observer // may be nil
	task     Name

	// following counts the goroutines that Campaign has started; they end after it has returned.
	following sync.WaitGroup

	mu      sync.Mutex
	latest  Checkpoint
	heard   time.Time // when latest came
	leader  fence.Token
	dropped time.Time // when the last known leader was gone
	won     time.Time
	own     fence.Token // of the own term
}

// Campaign implements fence.Elector.
func (s *standby) Campaign(
	ctx context.Context, r fence.Resource, holder string,
) (*fence.Term, error) {
	waiting, stop := context.WithCancel(ctx)
	// Campaign does not wait for the goroutines, so that closing a connection cannot delay the
	// leader's first step.
	defer stop()
	s.following.Go(func() { s.follow(waiting) })
	if s.observer != nil {
		s.following.Go(func() { s.watch(waiting, r) })
	}
	term, err := s.Elector.Campaign(ctx, r, holder)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.won = time.Now()
	if err == nil {
		s.own = term.Token()
	}
	return term, err
}

// follow keeps the latest checkpoint until ctx ends.
func (s *standby) follow(ctx context.Context) {
	for failed := 1; ctx.Err() == nil; failed++ {
		// The error does not matter: if the journal stays broken, the leader sees it.
		_ = s.journal.Follow(ctx, s.task, func(cp Checkpoint) error {
			failed = 0
			s.mu.Lock()
			defer s.mu.Unlock()
			// A journal that has lost a version may have another one with its number.
			if cp.Version > s.latest.Version ||
				cp.Version == s.latest.Version && cp.Nonce != s.latest.Nonce {
				s.latest, s.heard = cp, time.Now()
			}
			return nil
		})
		_ = pause(ctx, journalBackoff(failed+1))
	}
}

// watch records when the leader is gone.
func (s *standby) watch(ctx context.Context, r fence.Resource) {
	for failed := 1; ctx.Err() == nil; failed++ {
		_ = s.observer.Watch(ctx, r, func(queue []elector.Candidate) error {
			failed = 0
			var leader fence.Token
			if len(queue) > 0 {
				leader = queue[0].Token
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.leader != 0 && leader != s.leader {
				s.dropped = time.Now()
			}
			s.leader = leader
			return nil
		})
		_ = pause(ctx, journalBackoff(failed+1))
	}
}

// copy returns the latest checkpoint that this process has seen.
func (s *standby) copy() Checkpoint {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.latest
}

// took returns the parts of the take-over up to the raise, which has just ended.
func (s *standby) took() (t taskevent.TakeOver, raised time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	raised = time.Now()
	t.Raise = raised.Sub(s.won)
	dropped := s.dropped
	if s.leader != s.own { // the notice of the changed queue has not come yet
		dropped = s.won
	}
	if s.observer == nil || dropped.IsZero() {
		return t, raised
	}
	t.Election = max(0, s.won.Sub(dropped))
	if !s.heard.IsZero() {
		t.Detection = max(0, dropped.Sub(s.heard))
	}
	return t, raised
}

// forget prepares for the next campaign. It keeps the latest checkpoint.
func (s *standby) forget(last Checkpoint) {
	s.following.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leader, s.dropped, s.heard = 0, time.Time{}, time.Time{}
	if last.Version > s.latest.Version {
		s.latest = last
	}
}
