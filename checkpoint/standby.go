package checkpoint

import (
	"context"
	"sync"
	"time"

	"github.com/ringfence/ringfence/fence"
)

// standby is an elector whose candidates follow the checkpoint while they wait, so that they have
// it when they win.
type standby struct {
	fence.Elector
	journal  Journal
	observer fence.Observer // may be nil
	task     Name

	// what Campaign has started; it has been told to end when Campaign returns
	following sync.WaitGroup

	mu      sync.Mutex
	latest  Checkpoint
	heard   time.Time // when latest came
	leader  fence.Token
	dropped time.Time // when the last leader that was seen was gone
	won     time.Time
	own     fence.Token // of the term that was won
}

// Campaign implements fence.Elector.
func (s *standby) Campaign(
	ctx context.Context, r fence.Resource, holder string,
) (*fence.Term, error) {
	waiting, stop := context.WithCancel(ctx)
	// and nobody waits here: a leader does not let its first step wait for a connection to close
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

// follow keeps the last checkpoint until ctx ends.
func (s *standby) follow(ctx context.Context) {
	for failed := 1; ctx.Err() == nil; failed++ {
		// what went wrong shows when this process leads
		_ = s.journal.Follow(ctx, s.task, func(cp Checkpoint) error {
			failed = 0
			s.mu.Lock()
			defer s.mu.Unlock()
			if cp.Version > s.latest.Version {
				s.latest, s.heard = cp, time.Now()
			}
			return nil
		})
		_ = pause(ctx, journalBackoff(failed+1))
	}
}

// watch notes when the leader is gone.
func (s *standby) watch(ctx context.Context, r fence.Resource) {
	for failed := 1; ctx.Err() == nil; failed++ {
		_ = s.observer.Watch(ctx, r, func(queue []fence.Candidate) error {
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

// copy is the checkpoint as it was last heard of.
func (s *standby) copy() Checkpoint {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.latest
}

// took is how long the take-over has taken so far, now that the mark is raised.
func (s *standby) took() (t TakeOver, raised time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	raised = time.Now()
	t.Raise = raised.Sub(s.won)
	dropped := s.dropped
	if s.leader != s.own { // the win was heard of before the queue was
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

// forget makes ready for the next campaign; what was heard of the checkpoint stays.
func (s *standby) forget(last Checkpoint) {
	s.following.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leader, s.dropped, s.heard = 0, time.Time{}, time.Time{}
	if last.Version > s.latest.Version {
		s.latest = last
	}
}
