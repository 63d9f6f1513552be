// Package assigner assigns the jobs of a group to its workers, in the term of the worker that they
// have elected.
package assigner

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/fence/group"
	"github.com/ringfence/ringfence/internal/network/backoff"
	"github.com/ringfence/ringfence/jobs/assign"
	"github.com/ringfence/ringfence/jobs/internal/records"
	"github.com/ringfence/ringfence/jobs/job"
)

// assigner is the worker that its group has elected to assign jobs. All that it writes names its
// term, so one that was deposed assigns nothing.
//
// It keeps no state of its own. What it knows comes from watches of the waiting jobs, the members,
// the assignments of each worker and the requests to cancel; what it has changed itself counts
// until a watch shows it. So a new one goes on where the last one stopped: it takes the jobs back
// of workers that are gone, whenever they left.
type assigner struct {
	q        *records.Store
	claim    fence.Claim
	strategy assign.Strategy
	log      *slog.Logger
	group    *errgroup.Group
	ctx      context.Context

	wake chan struct{}

	mu       sync.Mutex
	view     view
	workers  map[fence.Token]*worker // every one that has, or may have, assignments
	traits   map[job.ID]traits       // of waiting jobs that were looked at
	assigned map[string]time.Time    // entries of jobs that were just assigned

	numbers numbers           // for the loop alone
	offers  map[string][]byte // that were read as documents; for the loop alone

	peeks map[string]time.Time // since when they are there; for the sweep alone
}

// view is what the watches have shown last.
type view struct {
	waiting, cancel, draining []string
	members                   map[fence.Token]group.Member
	seen                      int // which of the four have shown something, one bit each
}

const (
	seenWaiting = 1 << iota
	seenCancel
	seenDraining
	seenMembers
	seenAll = 1<<iota - 1
)

const (
	// chunk is how many jobs one change moves. Each needs four writes at most.
	chunk = documents.MaxWrites / 4
	// forgetChunk is how many jobs one change forgets: four writes for each, and three for a clean-up.
	forgetChunk = documents.MaxWrites / 7
	// returnedFor is how long a job does not go to the worker that has given it back.
	returnedFor = 5 * time.Second
	// settle is after how long a watch should have shown what was changed.
	settle = 5 * time.Second
	// unseen is after how long assignments that no watch has shown are read, if jobs wait for room.
	unseen = 20 * time.Millisecond
	// sweepEvery is how often finished jobs are looked at that may be forgotten.
	sweepEvery = 10 * time.Second
)

// Run assigns jobs until ctx, which is that of a term, ends.
func Run(
	ctx context.Context, q *records.Store, claim fence.Claim, strategy assign.Strategy,
	log *slog.Logger,
) error {
	a := &assigner{
		q: q, claim: claim, strategy: strategy, log: log, wake: make(chan struct{}, 1),
		workers: map[fence.Token]*worker{}, traits: map[job.ID]traits{}, assigned: map[string]time.Time{},
		offers: map[string][]byte{}, peeks: map[string]time.Time{},
	}
	a.group, a.ctx = errgroup.WithContext(ctx)
	// First the workers that may have assignments, then the members: who is no member in a list that
	// was read later is gone for good.
	if err := a.trackListed(); err != nil {
		return err
	}
	a.watch()
	a.group.Go(a.loop)
	a.group.Go(a.keepSweeping)
	return a.group.Wait()
}

// watch starts the watches that last as long as the term.
func (a *assigner) watch() {
	names := func(folder string, bit int, into *[]string) {
		a.group.Go(func() error {
			return a.q.Docs.WatchNames(a.ctx, folder, func(names []string) error {
				a.update(func() { *into = names; a.view.seen |= bit })
				return nil
			})
		})
	}
	names(a.q.Paths.Waiting(), seenWaiting, &a.view.waiting)
	names(a.q.Paths.Cancellations(), seenCancel, &a.view.cancel)
	names(a.q.Paths.Draining(), seenDraining, &a.view.draining)
	a.group.Go(func() error {
		return a.q.Group.Watch(a.ctx, func(all []group.Member) error {
			members := map[fence.Token]group.Member{}
			for _, m := range all {
				members[m.ID] = m
			}
			a.update(func() { a.view.members = members; a.view.seen |= seenMembers })
			return nil
		})
	})
}

// update changes what the assigner knows, and wakes it.
func (a *assigner) update(change func()) {
	a.mu.Lock()
	change()
	a.mu.Unlock()
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// loop does what there is to do, and waits for more.
func (a *assigner) loop() error {
	for failures := 0; ; {
		next, err := a.round()
		switch {
		case a.ctx.Err() != nil:
			return context.Cause(a.ctx)
		case err != nil && !records.Again(err):
			return err // deposed, or refused by the coordinator
		case err != nil:
			failures++
			a.log.Warn("jobs cannot be assigned; trying again", "error", err)
			next = backoff.After(failures, backoff.Min, backoff.Max)
		default:
			failures = 0
		}
		timer := time.NewTimer(next)
		select {
		case <-a.wake:
		case <-timer.C:
		case <-a.ctx.Done():
		}
		timer.Stop()
	}
}

// round takes back what workers had that are gone, cancels, and assigns. It returns when the next
// job is due.
func (a *assigner) round() (next time.Duration, err error) {
	a.mu.Lock()
	ready := a.view.seen == seenAll
	a.mu.Unlock()
	if !ready {
		return time.Hour, nil
	}
	for _, step := range []func() error{
		a.release, a.cancelAsked, a.readOffers, a.enlist, a.refresh, a.lookUp,
	} {
		if err := step(); err != nil {
			return 0, err
		}
	}
	return a.assignDue()
}
