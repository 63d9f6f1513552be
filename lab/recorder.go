package lab

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lab/history"
)

// recorder writes the history, and keeps what the run needs to know.
type recorder struct {
	mu      sync.Mutex
	out     *history.Writer
	seen    seen
	changed chan struct{} // closed at the next event
}

// seen is what the workers have reported so far.
type seen struct {
	acked    int              // writes and steps
	ackedBy  map[string]int   // the same, by worker
	ackedIn  map[string]int   // the same, by store
	stale    int              // attempts that were refused as stale
	ready    map[string]int64 // workers that lead, as they believe, and since when
	standing map[string]bool  // workers that stand for election
	inside   map[string]bool  // workers that are stopped inside a transaction
	ended    map[string]int   // how often a worker has ended by itself
	terms    []fence.Claim    // that became ready, in order
	above    int              // terms won since the last of them, with a higher token
	jobs     seenJobs
}

func newRecorder(out *history.Writer) *recorder {
	return &recorder{out: out, changed: make(chan struct{}), seen: seen{
		ackedBy: map[string]int{}, ackedIn: map[string]int{}, ready: map[string]int64{},
		standing: map[string]bool{}, inside: map[string]bool{}, ended: map[string]int{}, jobs: newSeenJobs(),
	}}
}

// add records an event. It may be called from any goroutine.
func (r *recorder) add(e history.Event) {
	if e.At == 0 {
		e.At = history.Now()
	}
	r.out.Add(e)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen.take(e)
	close(r.changed)
	r.changed = make(chan struct{})
}

func (s *seen) take(e history.Event) {
	worker := history.Worker(e.Process)
	s.jobs.take(worker, e)
	switch {
	case e.Do.AboutJobs():
	case e.Kind == history.Return && e.Do != history.Raise && e.Outcome == history.OK:
		s.acked++
		s.ackedBy[worker]++
		s.ackedIn[e.Store]++
	case e.Kind == history.Return && e.Outcome == history.Stale:
		s.stale++
	case e.Kind == history.Term && e.Resource == "":
		s.takeTerm(worker, e)
	case e.Kind == history.Fault && e.Fault == history.Inside:
		s.inside[worker] = e.State == history.Begin
	case e.Kind == history.Note && strings.HasPrefix(e.Text, history.Ended):
		s.ended[worker]++
		delete(s.ready, worker)
		delete(s.standing, worker)
	}
}

func (s *seen) takeTerm(worker string, e history.Event) {
	delete(s.standing, worker)
	switch e.State {
	case history.Standing:
		s.standing[worker] = true
		delete(s.ready, worker)
	case history.Won:
		if e.Token > s.term().Token {
			s.above++
		}
	case history.Ready:
		s.ready[worker], s.above = e.At, 0
		s.terms = append(s.terms, fence.Claim{Resource: Resource, Token: e.Token, Issuer: e.Issuer})
	case history.Lost, history.Left:
		delete(s.ready, worker)
	}
}

// leader returns the worker that became ready last, "" if there is none.
func (s *seen) leader() string {
	last := ""
	for w, at := range s.ready {
		if last == "" || at > s.ready[last] {
			last = w
		}
	}
	return last
}

// term returns the last term that became ready, and deposed the one before; the zero Claim if there
// was none.
func (s *seen) term() fence.Claim    { return s.fromLast(1) }
func (s *seen) deposed() fence.Claim { return s.fromLast(2) }

func (s *seen) fromLast(n int) fence.Claim {
	if len(s.terms) < n {
		return fence.Claim{}
	}
	return s.terms[len(s.terms)-n]
}

// writtenSince reports whether each of these stores was written to again, beyond what may have been
// under way.
func (s *seen) writtenSince(before map[string]int) bool {
	for store, n := range before {
		if s.ackedIn[store] <= n+5 {
			return false
		}
	}
	return true
}

// standby returns a worker that stands for election, "" if there is none.
func (s *seen) standby() string {
	for _, w := range slices.Sorted(maps.Keys(s.standing)) {
		if w != s.leader() {
			return w
		}
	}
	return ""
}

// jobEnded takes note of a job's end, which the history has from the worker that published it.
func (r *recorder) jobEnded(id string) { r.setDone(id, true) }

// jobWaits takes note that a job which has ended is to wait again.
func (r *recorder) jobWaits(id string) { r.setDone(id, false) }

func (r *recorder) setDone(id string, done bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen.jobs.done[id] = done
	close(r.changed)
	r.changed = make(chan struct{})
}

// look calls do with what was reported, and returns a channel that is closed at the next event.
func (r *recorder) look(do func(*seen)) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	do(&r.seen)
	return r.changed
}

// wait returns when a condition holds. The error is that of ctx, and says what was missing.
func (r *recorder) wait(ctx context.Context, what string, holds func(*seen) bool) error {
	for {
		done := false
		changed := r.look(func(s *seen) { done = holds(s) })
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, context.Cause(ctx))
		}
	}
}
