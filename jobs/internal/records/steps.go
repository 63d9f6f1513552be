package records

import (
	"context"
	"errors"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/jobs/job"
)

// Step makes a step of a job's life, from its status as it was read before, if r is one, or as it
// is now, and again after a conflict. It makes none if next returns none. It returns the status
// that the step has made, if that is next's first write.
func (q *Store) Step(
	ctx context.Context, id job.ID, r Record, next func(Record) ([]documents.Write, error),
	while ...fence.Claim,
) (made Record, err error) {
	var refused error
	lost := false
	err = Retry(ctx, func() (err error) {
		if !r.Doc.Exists() {
			if r, err = q.Get(ctx, id); err != nil {
				return err
			}
		}
		from := r
		from.AnswerLost = lost
		r = Record{} // it is read anew if this fails
		writes, err := next(from)
		if err != nil || len(writes) == 0 {
			made, refused = from, err
			return nil
		}
		versions, err := q.Change(ctx, documents.Change{While: while, Writes: writes})
		if err == nil {
			made, _ = Parse(documents.Document{
				Path: writes[0].Path, Data: writes[0].Data, Version: versions[0],
			})
		}
		lost = lost || errors.Is(err, documents.ErrUnknown)
		return err
	})
	switch {
	case err == nil:
		err = refused
	case ctx.Err() != nil:
		err = q.About(id, err)
	}
	return made, err
}

// Holder returns the unfinished job that has a unique key; "" if there is none.
func (q *Store) Holder(ctx context.Context, key string) (job.ID, error) {
	if key == "" {
		return "", nil
	}
	d, err := q.Document(ctx, q.Paths.unique(key))
	return job.ID(d.Data), err
}

// Returned is the step of a worker that does not run a job to its end.
func (q *Store) Returned(r Record) []documents.Write { return q.Changes.GiveBack(r, nil, q.Now()) }

// Cancelled is the step of a worker that has heard of a request to cancel a job. It deletes the
// request. If there is none any more, the job was tried again since, and is given back.
func (q *Store) Cancelled(ctx context.Context, r Record) ([]documents.Write, error) {
	asked, err := q.Request(ctx, r.ID)
	switch {
	case err != nil:
		return nil, err
	case !asked.Exists():
		return q.Returned(r), nil
	}
	return append(q.Changes.CancelNow(r, q.Now()), documents.Delete(asked)), nil
}

// Request returns the request to cancel a job.
func (q *Store) Request(ctx context.Context, id job.ID) (documents.Document, error) {
	return q.Document(ctx, q.Paths.Cancellation(id))
}

// Change makes a change of one job. If that is too large for the coordinator, its status loses the
// result: the job goes on, and holds up nobody. What is left is about as large as what was
// submitted.
func (q *Store) Change(ctx context.Context, c documents.Change) ([]int64, error) {
	versions, err := q.Docs.Change(ctx, c)
	if errors.Is(err, documents.ErrTooLarge) && q.Changes.dropResult(c.Writes) {
		return q.Docs.Change(ctx, c)
	}
	return versions, err
}
