// Package record writes the history of a run, and keeps what the run needs to know of it: who
// leads, who stands for election, what was acknowledged, who runs which jobs.
package record

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lab/history"
	"github.com/ringfence/ringfence/lab/scenario"
)

// Recorder writes the history, and keeps what the run needs to know.
type Recorder struct {
	Tell func(text string) // what people may want to know meanwhile; may be nil

	mu      sync.Mutex
	out     *history.Writer
	seen    Seen
	changed chan struct{} // closed at the next event
}

// Seen is what the workers have reported so far.
type Seen struct {
	Acked    int              // writes and steps
	ackedBy  map[string]int   // the same, by worker
	AckedIn  map[string]int   // the same, by store
	Stale    int              // attempts that were refused as stale
	ready    map[string]int64 // workers that lead, as they believe, and since when
	standing map[string]bool  // workers that stand for election
	Inside   map[string]bool  // workers that are stopped inside a transaction
	Ended    map[string]int   // how often a worker has ended by itself
	terms    []fence.Claim    // that became ready, in order
	above    int              // terms won since the last of them, with a higher token
	Jobs     Jobs
}

// New returns a recorder that writes to a history.
func New(out *history.Writer) *Recorder {
	return &Recorder{out: out, changed: make(chan struct{}), seen: Seen{
		ackedBy: map[string]int{}, AckedIn: map[string]int{}, ready: map[string]int64{},
		standing: map[string]bool{}, Inside: map[string]bool{}, Ended: map[string]int{}, Jobs: newJobs(),
	}}
}

// Add records an event. It may be called from any goroutine.
func (r *Recorder) Add(e history.Event) {
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

func (s *Seen) take(e history.Event) {
	worker := history.Worker(e.Process)
	s.Jobs.take(worker, e)
	switch {
	case e.Do.AboutJobs():
	case e.Kind == history.Return && e.Do != history.Raise && e.Outcome == history.OK:
		s.Acked++
		s.ackedBy[worker]++
		s.AckedIn[e.Store]++
	case e.Kind == history.Return && e.Outcome == history.Stale:
		s.Stale++
	case e.Kind == history.Term && e.Resource == "":
		s.takeTerm(worker, e)
	case e.Kind == history.Fault && e.Fault == history.Inside:
		s.Inside[worker] = e.State == history.Begin
	case e.Kind == history.Note && strings.HasPrefix(e.Text, history.Ended):
		s.Ended[worker]++
		delete(s.ready, worker)
		delete(s.standing, worker)
	}
}

func (s *Seen) takeTerm(worker string, e history.Event) {
	delete(s.standing, worker)
	switch e.State {
	case history.Standing:
		s.standing[worker] = true
		delete(s.ready, worker)
	case history.Won:
		if e.Token > s.Term().Token {
			s.above++
		}
	case history.Ready:
		s.ready[worker], s.above = e.At, 0
		s.terms = append(s.terms, fence.Claim{
			Resource: scenario.Resource, Token: e.Token, Issuer: e.Issuer,
		})
	case history.Lost, history.Left:
		delete(s.ready, worker)
	}
}

// Leader returns the worker that became ready last, "" if there is none.
func (s *Seen) Leader() string {
	last := ""
	for w, at := range s.ready {
		if last == "" || at > s.ready[last] {
			last = w
		}
	}
	return last
}

// Term returns the last term that became ready, and deposed the one before; the zero Claim if there
// was none.
func (s *Seen) Term() fence.Claim    { return s.fromLast(1) }
func (s *Seen) Deposed() fence.Claim { return s.fromLast(2) }

func (s *Seen) fromLast(n int) fence.Claim {
	if len(s.terms) < n {
		return fence.Claim{}
	}
	return s.terms[len(s.terms)-n]
}

// WrittenSince reports whether each of these stores was written to again, beyond what may have been
// under way.
func (s *Seen) WrittenSince(before map[string]int) bool {
	for store, n := range before {
		if s.AckedIn[store] <= n+5 {
			return false
		}
	}
	return true
}

// Standby returns a worker that stands for election, "" if there is none.
func (s *Seen) Standby() string {
	for _, w := range slices.Sorted(maps.Keys(s.standing)) {
		if w != s.Leader() {
			return w
		}
	}
	return ""
}

// JobEnded takes note of a job's end, which the history has from the worker that published it.
func (r *Recorder) JobEnded(id string) { r.setDone(id, true) }

// JobWaits takes note that a job which has ended is to wait again.
func (r *Recorder) JobWaits(id string) { r.setDone(id, false) }

func (r *Recorder) setDone(id string, done bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen.Jobs.done[id] = done
	close(r.changed)
	r.changed = make(chan struct{})
}

// Look calls do with what was reported, and returns a channel that is closed at the next event.
func (r *Recorder) Look(do func(*Seen)) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	do(&r.seen)
	return r.changed
}

// Wait returns when a condition holds. The error is that of ctx, and says what was missing.
func (r *Recorder) Wait(ctx context.Context, what string, holds func(*Seen) bool) error {
	for {
		done := false
		changed := r.Look(func(s *Seen) { done = holds(s) })
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

// Await waits for a condition that may never hold: the checker judges that.
func (r *Recorder) Await(
	ctx context.Context, limit time.Duration, what string, holds func(*Seen) bool,
) {
	bounded, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not within %v", limit))
	defer cancel()
	if err := r.Wait(bounded, what, holds); err != nil && ctx.Err() == nil {
		r.Note("lab", err.Error())
		r.Progress("%v", err)
	}
}

// Find waits for a worker with a role.
func (r *Recorder) Find(
	ctx context.Context, what string, find func(*Seen) string,
) (worker string, err error) {
	err = r.Wait(ctx, what, func(s *Seen) bool {
		worker = find(s)
		return worker != ""
	})
	return worker, err
}

// Note records something about a process.
func (r *Recorder) Note(process, text string) {
	r.Add(history.Event{Kind: history.Note, Process: process, Text: text})
}

// Progress tells people something.
func (r *Recorder) Progress(format string, args ...any) {
	if r.Tell != nil {
		r.Tell(fmt.Sprintf(format, args...))
	}
}

// Err returns the first error of writing the history.
func (r *Recorder) Err() error { return r.out.Err() }
