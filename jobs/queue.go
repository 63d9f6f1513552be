package jobs

import (
	"context"
	"errors"
	"fmt"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/fence/group"
	"github.com/ringfence/ringfence/jobs/internal/records"
	"github.com/ringfence/ringfence/jobs/job"
)

// Queue is the jobs of a group. Its methods may be called from any goroutine.
type Queue struct {
	store   *records.Store
	backlog backlog
}

// New returns the jobs of a group. The name is a group's (group.New). Nothing is sent.
func New(c documents.Coordinator, name string) (*Queue, error) {
	s, err := records.Open(c, name)
	if err != nil {
		return nil, err
	}
	return &Queue{store: s}, nil
}

// Group returns the group of the workers.
func (q *Queue) Group() *group.Group { return q.store.Group }

// Leader returns the election in which the worker that assigns is elected.
func (q *Queue) Leader() fence.Resource { return q.store.Leader() }

// Get returns a job's status.
func (q *Queue) Get(ctx context.Context, id job.ID) (job.Status, error) {
	r, err := q.store.Get(ctx, id)
	return r.Status, err
}

// Spec returns a job as it was submitted.
func (q *Queue) Spec(ctx context.Context, id job.ID) (job.Spec, error) {
	return q.store.Spec(ctx, id)
}

// List calls each with the status of every job, the oldest first, until it returns an error, which
// List returns. A status that cannot be read is left out and part of the error.
func (q *Queue) List(ctx context.Context, each func(job.Status) error) error {
	names, err := q.store.Docs.Names(ctx, q.store.Paths.Statuses())
	if err != nil {
		return err
	}
	return q.store.Read(ctx, names, records.ListPage, each)
}

// Watch calls each with a job's status now and after every change, until ctx ends or each returns
// an error, which Watch returns. The error is job.ErrNotFound once there is no such job.
func (q *Queue) Watch(ctx context.Context, id job.ID, each func(job.Status) error) error {
	if _, err := job.ParseID(string(id)); err != nil {
		return err
	}
	return q.store.Docs.Watch(ctx, q.store.Paths.Status(id), func(d documents.Document) error {
		r, err := records.Parse(d)
		if err != nil {
			return q.store.About(id, err)
		}
		return each(r.Status)
	})
}

// Wait returns a job's status once it has ended.
func (q *Queue) Wait(ctx context.Context, id job.ID) (end job.Status, err error) {
	ended := errors.New("the job has ended")
	err = q.Watch(ctx, id, func(s job.Status) error {
		if end = s; s.State.Finished() {
			return ended
		}
		return nil
	})
	if errors.Is(err, ended) {
		err = nil
	}
	return end, err
}

// Cancel ends a job. One that waits is cancelled when Cancel returns. One that runs hears of it:
// its context ends, and it is cancelled when its handler has returned an error. If the handler
// succeeds all the same, the job is done. ErrWrongState: it has ended before.
func (q *Queue) Cancel(ctx context.Context, id job.ID) error {
	sent := false // a change, of which the answer may have been lost
	_, err := q.store.Step(ctx, id, records.Record{},
		func(r records.Record) ([]documents.Write, error) {
			switch {
			case r.State == job.Cancelled && sent:
				return nil, nil
			case r.State.Finished():
				return nil, fmt.Errorf("%w: %s is %s", job.ErrWrongState, id, r.State)
			case r.State == job.Waiting:
				sent = true
				return q.store.Changes.CancelNow(r, q.store.Now()), nil
			}
			asked, err := q.store.Request(ctx, id)
			if err != nil || asked.Exists() {
				return nil, err
			}
			sent = true
			// The status is kept, so that the request is not left behind by a job that ends meanwhile.
			return []documents.Write{
					documents.Check(r.Doc), documents.Create(q.store.Paths.Cancellation(id), nil),
				},
				nil
		})
	return err
}

// Retry makes a job that has failed or was cancelled wait again. ErrWrongState: it is in another
// state. ErrTaken: another job has its unique key now.
func (q *Queue) Retry(ctx context.Context, id job.ID) error {
	sent := false // a change, of which the answer may have been lost
	_, err := q.store.Step(ctx, id, records.Record{},
		func(r records.Record) ([]documents.Write, error) {
			switch {
			case r.State == job.Failed || r.State == job.Cancelled:
				other, err := q.store.Holder(ctx, r.Unique)
				if err != nil {
					return nil, err
				}
				if other != "" {
					return nil, fmt.Errorf("%w: %s has %q", job.ErrTaken, other, r.Unique)
				}
				asked, err := q.store.Request(ctx, id)
				if err != nil {
					return nil, err
				}
				sent = true
				writes := q.store.Changes.Retry(r, q.store.Now())
				if asked.Exists() { // it has ended the job, or has come too late
					writes = append(writes, documents.Delete(asked))
				}
				return writes, nil
			case sent:
				return nil, nil
			}
			return nil, fmt.Errorf("%w: %s is %s", job.ErrWrongState, id, r.State)
		})
	return err
}
