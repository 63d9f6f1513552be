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

// recorder writes the history as it comes and keeps what the run needs to know of it.
type recorder struct {
	mu      sync.Mutex
	out     *history.Writer
	seen    seen
	changed chan struct{} // closed at the next event
}

// seen is what the workers have said so far.
type seen struct {
	acked    int              // writes and steps
	ackedBy  map[string]int   // of them, by worker
	stale    int              // attempts that were refused as stale
	ready    map[string]int64 // workers that lead, by their own belief, and since when
	standing map[string]bool  // workers that stand for election
	inside   map[string]bool  // workers that stand still inside a transaction
	issuer   map[string]fence.Issuer
	ended    map[string]int // how often a worker has ended by itself
	terms    []fence.Claim  // that have become ready, in order
}

func newRecorder(out *history.Writer) *recorder {
	return &recorder{out: out, changed: make(chan struct{}), seen: seen{
		ackedBy: map[string]int{}, ready: map[string]int64{}, standing: map[string]bool{},
		inside: map[string]bool{}, issuer: map[string]fence.Issuer{}, ended: map[string]int{},
	}}
}

// Ended is how a System says, as a Note of the worker, that a worker has ended by itself.
const Ended = "ended: "

// add takes an event from whoever saw it.
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
	worker, _, _ := strings.Cut(e.Process, "/")
	switch {
	case e.Kind == history.Return && e.Do != history.Raise && e.Outcome == history.OK:
		s.acked++
		s.ackedBy[worker]++
	case e.Kind == history.Return && e.Outcome == history.Stale:
		s.stale++
	case e.Kind == history.Term:
		s.takeTerm(worker, e)
	case e.Kind == history.Fault && e.Fault == string(Inside):
		s.inside[worker] = e.State == history.Begin
	case e.Kind == history.Note && strings.HasPrefix(e.Text, Ended):
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
	case history.Ready:
		s.ready[worker] = e.At
		s.terms = append(s.terms, fence.Claim{Resource: Resource, Token: e.Token, Issuer: e.Issuer})
	case history.Lost, history.Left:
		delete(s.ready, worker)
	}
}

// leader is the worker that has become ready last, "" when there is none.
func (s *seen) leader() string {
	last := ""
	for w, at := range s.ready {
		if last == "" || at > s.ready[last] {
			last = w
		}
	}
	return last
}

// term is the last one that became ready; deposed is the one before. The zero Claim: there was none.
func (s *seen) term() fence.Claim    { return s.fromLast(1) }
func (s *seen) deposed() fence.Claim { return s.fromLast(2) }

func (s *seen) fromLast(n int) fence.Claim {
	if len(s.terms) < n {
		return fence.Claim{}
	}
	return s.terms[len(s.terms)-n]
}

// standby is a worker that stands for election.
func (s *seen) standby() string {
	for _, w := range slices.Sorted(maps.Keys(s.standing)) {
		if w != s.leader() {
			return w
		}
	}
	return ""
}

// look calls do with what was seen, and returns a channel that is closed at the next event.
func (r *recorder) look(do func(*seen)) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	do(&r.seen)
	return r.changed
}

// wait returns when it holds of what was seen. The error is ctx's, with what was waited for.
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
