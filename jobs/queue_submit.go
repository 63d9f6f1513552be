package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/jobs/internal/records"
	"github.com/ringfence/ringfence/jobs/job"
)

// Submit submits a job of a kind, and returns its ID once it is durable. in is written as JSON,
// which Handle reads. A Spec may follow, which says the rest, such as Retries; its Kind and Payload
// stay empty. If an unfinished job has the same unique key, Submit returns the ID of that job.
// While the coordinator does not answer it tries until ctx ends, and submits the job once.
//
// Errors: job.ErrBadSpec, ErrFull, documents.ErrTooLarge, ctx's cause, or an error of the
// coordinator that trying again cannot fix. After ctx's cause the job may have been submitted;
// submit it with a unique key to find out.
func Submit[In any](
	ctx context.Context, q *Queue, kind string, in In, rest ...job.Spec,
) (job.ID, error) {
	spec, err := specOf(kind, in, rest)
	if err != nil {
		return "", err
	}
	return q.Submit(ctx, spec)
}

// specOf puts together what Submit is given.
func specOf(kind string, in any, rest []job.Spec) (spec job.Spec, err error) {
	switch len(rest) {
	case 0:
	case 1:
		spec = rest[0]
	default:
		return spec, fmt.Errorf("%w: Submit takes one Spec, not %d", job.ErrBadSpec, len(rest))
	}
	if spec.Kind != "" || spec.Payload != nil {
		return spec, fmt.Errorf("%w: the Spec given to Submit has a kind or a payload of its own",
			job.ErrBadSpec)
	}
	spec.Kind = kind
	if spec.Payload, err = json.Marshal(in); err != nil {
		return spec, fmt.Errorf("%w: the payload cannot be written as JSON: %w", job.ErrBadSpec, err)
	}
	return spec, nil
}

// Submit submits a job whose payload is JSON already, such as one that another program has sent. It
// returns what the function Submit does.
func (q *Queue) Submit(ctx context.Context, spec job.Spec) (job.ID, error) {
	if err := q.check(spec); err != nil {
		return "", err
	}
	return q.submitOne(ctx, records.NewID(q.store.Now()), spec)
}

// check says what is wrong with a Spec in this group.
func (q *Queue) check(s job.Spec) error {
	if s.Resource == q.Leader() || s.Resource == q.store.Group.Election() {
		return fmt.Errorf("%w: %s is an election of the group's workers; name another resource",
			job.ErrBadSpec, s.Resource)
	}
	return s.Check()
}

// submitTogether is how many jobs SubmitAll hands in with one change. Each needs four writes at
// most.
const submitTogether = documents.MaxWrites / 4

// SubmitAll hands several jobs in as Submit does, many in one change. It returns an ID for each, in
// this order, in which they are also assigned. After an error it returns the IDs of those that were
// handed in before it; of the others some may have been.
func (q *Queue) SubmitAll(ctx context.Context, specs []job.Spec) ([]job.ID, error) {
	for i, spec := range specs {
		if err := q.check(spec); err != nil {
			return nil, fmt.Errorf("job %d: %w", i+1, err)
		}
	}
	ids := make([]job.ID, len(specs))
	for i := range ids {
		ids[i] = records.NewID(q.store.Now())
	}
	slices.Sort(ids)
	for from := 0; from < len(ids); from += submitTogether {
		to := min(from+submitTogether, len(ids))
		done, err := q.submitSome(ctx, ids[from:to], specs[from:to])
		if err != nil {
			return ids[:from+len(done)], err
		}
	}
	return ids, nil
}

// submitSome hands jobs in under these IDs, which it replaces by those of jobs that have their
// unique keys. It does so with one change, or one after the other if that does not work: one of
// them has a unique key that is taken, an answer was lost, or together they are too large.
func (q *Queue) submitSome(ctx context.Context, ids []job.ID, specs []job.Spec) ([]job.ID, error) {
	var writes []documents.Write
	for i, id := range ids {
		writes = append(writes, q.store.Changes.Submit(id, specs[i], q.store.Now())...)
	}
	if q.room(ctx, specs...) == nil {
		if _, err := q.store.Docs.Change(ctx, documents.Change{Writes: writes}); err == nil {
			q.backlog.add(specs...)
			return ids, nil
		}
	}
	for i, id := range ids {
		id, err := q.submitOne(ctx, id, specs[i])
		if err != nil {
			return ids[:i], err
		}
		ids[i] = id
	}
	return ids, nil
}

// submitOne hands a job in that is good, once under this ID.
func (q *Queue) submitOne(ctx context.Context, id job.ID, spec job.Spec) (job.ID, error) {
	err := q.persist(ctx, func() error { return q.room(ctx, spec) })
	if errors.Is(err, ErrFull) {
		if other, failed := q.store.Holder(ctx, spec.Unique); failed == nil && other != "" {
			return other, nil // nothing is added
		}
	}
	if err != nil {
		return "", err
	}
	var there job.ID
	change := documents.Change{Writes: q.store.Changes.Submit(id, spec, q.store.Now())}
	err = q.persist(ctx, func() error {
		there = id
		_, err := q.store.Docs.Change(ctx, change)
		if errors.Is(err, documents.ErrConflict) {
			there, err = q.taken(ctx, id, spec.Unique)
		}
		return err
	})
	if err != nil {
		return "", err
	}
	if there == id {
		q.backlog.add(spec)
	}
	return there, nil
}

// persist tries a part of a submission until ctx ends or an error cannot be fixed by that.
func (q *Queue) persist(ctx context.Context, try func() error) error {
	if err := records.Retry(ctx, try); err != nil {
		return fmt.Errorf("submit a job to %s: %w", q.store.Group.Name(), err)
	}
	return nil
}

// taken returns the job that is there already: this one, if an answer was lost, or the one with the
// same unique key. It returns an error to try again if that one has just ended.
func (q *Queue) taken(ctx context.Context, id job.ID, key string) (job.ID, error) {
	if _, err := q.store.Get(ctx, id); !errors.Is(err, job.ErrNotFound) {
		return id, err
	}
	other, err := q.store.Holder(ctx, key)
	if err == nil && other == "" {
		err = documents.ErrConflict
	}
	return other, err
}
