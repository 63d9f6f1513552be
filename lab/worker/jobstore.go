package worker

import (
	"context"
	"fmt"
	"strings"

	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/jobs/job"
	"github.com/ringfence/ringfence/lab/flaw"
	"github.com/ringfence/ringfence/lab/history"
	"github.com/ringfence/ringfence/lab/traffic"
)

// jobStore records each step of a job's life, and has failpoints before and after assignments.
type jobStore struct {
	documents.Store
	b *jobWorker
}

// Change implements documents.Store.
func (s jobStore) Change(ctx context.Context, c documents.Change) ([]int64, error) {
	return s.b.change(c, func() ([]int64, error) {
		if s.b.w.c.Flaw == flaw.InParts && assigns(c) {
			return s.b.inParts(ctx, s.Store, c)
		}
		if s.b.late.holds(c) {
			return nil, fmt.Errorf("%w: the failpoint answers nothing", documents.ErrUnknown)
		}
		return s.Store.Change(ctx, c)
	})
}

// change makes a change and records what it does to jobs.
func (b *jobWorker) change(c documents.Change, do func() ([]int64, error)) ([]int64, error) {
	steps := traffic.JobSteps(c)
	if len(steps) == 0 {
		return do()
	}
	what, nth := kindOf(c, steps), 0
	if what != "" {
		b.mu.Lock()
		b.changes[what]++
		nth = b.changes[what]
		b.mu.Unlock()
	}
	for i := range steps {
		e := &steps[i].Event
		e.Process, e.Op = b.w.c.Name+"/jobs", b.w.op("j")
		b.w.emit(*e)
	}
	b.reach("before "+what, nth)
	versions, err := do()
	if err == nil {
		b.reach("after "+what, nth)
	}
	for _, s := range steps {
		b.w.emit(s.Returned(versions, err))
		if err == nil && s.Status.State == job.Running {
			b.mu.Lock()
			b.running[s.Status.ID] = publishedStatus{s.Status, versions[s.Write]}
			b.mu.Unlock()
		}
	}
	return versions, err
}

// kindOf returns whether a change assigns jobs or takes jobs back of a worker that is gone; "" if
// neither.
func kindOf(c documents.Change, steps []traffic.JobStep) string {
	switch {
	case assigns(c):
		return assigning
	case len(c.While) > 0 && c.While[0].Resource == traffic.Assigner &&
		steps[0].Status.State == job.Waiting:
		return takingBack
	}
	return ""
}

// assigns reports whether a change assigns jobs.
func assigns(c documents.Change) bool {
	for _, w := range c.Writes {
		if w.Kind == documents.KindPut && strings.HasPrefix(w.Path, traffic.JobFolder("assigned")) {
			return true
		}
	}
	return false
}

// reach ends the process if the failpoint is here.
func (b *jobWorker) reach(place string, nth int) {
	if place == b.place && nth == b.nth {
		b.w.note("%s%s", history.Failpoint, place)
		b.w.exit(ExitKilled)
	}
}

// inParts is the flaw: what a change deletes is one change, and what it writes is the next one.
func (b *jobWorker) inParts(
	ctx context.Context, docs documents.Store, c documents.Change,
) ([]int64, error) {
	first, second := documents.Change{While: c.While}, documents.Change{While: c.While}
	for _, w := range c.Writes {
		if w.Kind == documents.KindDelete {
			first.Writes = append(first.Writes, w)
		} else {
			second.Writes = append(second.Writes, w)
		}
	}
	if _, err := docs.Change(ctx, first); err != nil {
		return nil, err
	}
	b.mu.Lock()
	nth := b.changes[assigning]
	b.mu.Unlock()
	b.reach("after "+assigning, nth) // in the middle
	if _, err := docs.Change(ctx, second); err != nil {
		return nil, err
	}
	return make([]int64, len(c.Writes)), nil // assignments need no versions
}
