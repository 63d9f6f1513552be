package assigner

import (
	"context"
	"errors"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/jobs/internal/records"
	"github.com/ringfence/ringfence/jobs/job"
)

// inFlight is how many changes the assigner sends before the first of them is answered.
const inFlight = 4

// move is a step of many jobs.
type move struct {
	a  *assigner
	mu sync.Mutex
	// next returns the writes of a job's step; none if it needs no step.
	next func(records.Record) []documents.Write
	// done is told which steps were made, or, if the answer was lost, may have been.
	done func(moved []job.ID, made bool)
}

// steps makes a step of each of these jobs, so many in one change. next is called in the order of
// the jobs, and neither next nor done while the other is.
func (a *assigner) steps(
	ids []job.ID, chunk int, next func(records.Record) []documents.Write,
	done func(moved []job.ID, made bool),
) error {
	m := &move{a: a, next: next, done: done}
	var sent errgroup.Group
	sent.SetLimit(inFlight)
	var failed error
	for some := range slices.Chunk(ids, chunk) {
		moved, writes, err := m.prepare(some)
		if failed = err; failed != nil {
			break
		}
		if len(writes) > 0 {
			sent.Go(func() error { return m.make(moved, writes) })
		}
	}
	return errors.Join(sent.Wait(), failed)
}

// prepare reads these jobs, and returns the writes for those that need a step.
func (m *move) prepare(ids []job.ID) (moved []job.ID, writes []documents.Write, err error) {
	docs, err := m.a.q.Statuses(m.a.ctx, ids)
	if err != nil {
		return nil, nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, d := range docs {
		r, err := records.Parse(d)
		if err != nil {
			if !errors.Is(err, job.ErrNotFound) {
				m.a.log.Error("a job is stuck", "job", string(ids[i]), "error", err)
			}
			continue
		}
		if step := m.next(r); len(step) > 0 {
			writes, moved = append(writes, step...), append(moved, r.ID)
		}
	}
	return moved, writes, nil
}

// make makes the steps of these jobs in one change. If one of the jobs has changed meanwhile, or
// together they are too large, each gets a change of its own.
func (m *move) make(moved []job.ID, writes []documents.Write) error {
	if len(moved) == 1 {
		return m.ignore(moved[0], m.change(m.a.q.Change, moved, writes))
	}
	err := m.change(m.a.q.Docs.Change, moved, writes)
	if !errors.Is(err, documents.ErrConflict) && !errors.Is(err, documents.ErrTooLarge) {
		return err
	}
	for _, id := range moved {
		one, writes, err := m.prepare([]job.ID{id})
		if err == nil && len(writes) > 0 {
			err = m.make(one, writes)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (m *move) change(
	send func(context.Context, documents.Change) ([]int64, error), moved []job.ID,
	writes []documents.Write,
) error {
	_, err := send(m.a.ctx, documents.Change{While: []fence.Claim{m.a.claim}, Writes: writes})
	if err == nil || errors.Is(err, documents.ErrUnknown) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.done(moved, err == nil)
	}
	return err
}

// ignore: a job that somebody else has changed is looked at again when a watch shows it. One that
// is too large even by itself stops no other.
func (m *move) ignore(id job.ID, err error) error {
	switch {
	case errors.Is(err, documents.ErrConflict):
		return nil
	case errors.Is(err, documents.ErrTooLarge):
		m.a.log.Error("a job is stuck", "job", string(id), "error", err)
		return nil
	}
	return err
}
