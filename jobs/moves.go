package jobs

import (
	"errors"
	"slices"

	"github.com/ringfence/ringfence/documents"
	"github.com/ringfence/ringfence/fence"
)

// steps makes a step of each of these jobs, so many in one change. next returns no writes for a job
// that needs no step. done is told which steps were made, or, if the answer was lost, may have been.
func (a *assigner) steps(
	ids []ID, chunk int, next func(record) []documents.Write, done func(moved []ID, made bool),
) error {
	for some := range slices.Chunk(ids, chunk) {
		moved, err := a.together(some, next)
		if errors.Is(err, documents.ErrConflict) { // one of them has changed
			for _, id := range some {
				one, err := a.together([]ID{id}, next)
				if err != nil && !errors.Is(err, documents.ErrConflict) {
					return err
				}
				if err == nil {
					done(one, true)
				}
			}
			continue
		}
		if err == nil || errors.Is(err, documents.ErrUnknown) {
			done(moved, err == nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// together makes a step of each of these jobs in one change.
func (a *assigner) together(
	ids []ID, next func(record) []documents.Write,
) (moved []ID, err error) {
	var paths []string
	for _, id := range ids {
		paths = append(paths, a.q.status(id))
	}
	docs, err := a.q.docs.Get(a.ctx, paths...)
	if err != nil {
		return nil, err
	}
	var writes []documents.Write
	for i, d := range docs {
		r, err := parse(d)
		if err != nil {
			if !errors.Is(err, errNoJob) {
				a.log.Error("a job is stuck", "job", string(ids[i]), "error", err)
			}
			continue
		}
		if step := next(r); len(step) > 0 {
			writes, moved = append(writes, step...), append(moved, r.ID)
		}
	}
	if len(writes) == 0 {
		return nil, nil
	}
	_, err = a.q.docs.Change(a.ctx, documents.Change{While: []fence.Claim{a.claim}, Writes: writes})
	return moved, err
}
