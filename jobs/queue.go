package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/fence/group"
	"github.com/ringfence/ringfence/internal/network/backoff"
)

// Errors about jobs. None of them says that something has changed.
var (
	// ErrUnknownJob: the group has no job of this ID, or has forgotten it after its end.
	ErrUnknownJob = errNoJob
	// ErrWrongState: Cancel finds that the job has ended, or Retry that it has not failed.
	ErrWrongState = errors.New("the job is in another state")
	// ErrTaken: another job that has not ended has the same unique key.
	ErrTaken = errors.New("another unfinished job has the unique key")
)

// Queue is the jobs of a group. Its methods may be called from any goroutine.
type Queue struct {
	at      documents.Coordinator
	docs    documents.Store
	group   *group.Group
	paths   paths
	changes changes
	now     func() time.Time
	backlog backlog
	endings atomic.Pointer[map[string]ending] // as Overview has read them last; nobody changes the map
}

// New returns the jobs of a group. The name is a group's (group.New). Nothing is sent.
func New(c documents.Coordinator, name string) (*Queue, error) {
	g, err := group.New(c, name)
	if err != nil {
		return nil, err
	}
	return &Queue{
		at: c, docs: c.Documents(), group: g, paths: pathsOf(name), changes: changes{pathsOf(name)},
		now: time.Now,
	}, nil
}

// Group returns the group of the workers.
func (q *Queue) Group() *group.Group { return q.group }

// Leader returns the election in which the worker that assigns is elected.
func (q *Queue) Leader() fence.Resource { return fence.Resource("jobs_" + q.group.Name()) }

// retry calls try until it succeeds, ctx ends, or an error cannot be fixed by trying again. If the
// answer of any try was lost, the error matches documents.ErrUnknown.
func retry(ctx context.Context, try func() error) error {
	var lost error
	for failures := 1; ; failures++ {
		err := try()
		if errors.Is(err, documents.ErrUnknown) {
			lost = err
		}
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("%w (last: %w)", context.Cause(ctx), unlessLost(lost, err))
		case !again(err):
			return unlessLost(lost, err)
		}
		backoff.Pause(ctx, backoff.After(failures, backoff.Min, backoff.Max))
	}
}

// unlessLost returns an error so that it does not say that nothing was done, if an answer was lost
// before it.
func unlessLost(lost, err error) error {
	switch {
	case lost == nil || errors.Is(err, documents.ErrUnknown):
		return err
	case errors.Is(err, fence.ErrNotDone):
		return fmt.Errorf("%w; then the coordinator was out of reach", lost)
	}
	return fmt.Errorf("%w; before that: %w", err, lost)
}

// create creates a document that may be there already.
func (q *Queue) create(ctx context.Context, path string, data []byte) error {
	return retry(ctx, func() error {
		_, err := q.docs.Change(ctx,
			documents.Change{Writes: []documents.Write{documents.Create(path, data)}})
		if errors.Is(err, documents.ErrConflict) {
			return nil // it is there, or an answer was lost
		}
		return err
	})
}

// again reports an error after which a step may be tried again, from a status that is read anew.
func again(err error) bool {
	return errors.Is(err, documents.ErrConflict) || errors.Is(err, documents.ErrUnknown) ||
		errors.Is(err, documents.ErrUnreachable)
}

// Get returns a job's status.
func (q *Queue) Get(ctx context.Context, id ID) (Status, error) {
	r, err := q.get(ctx, id)
	return r.Status, err
}

func (q *Queue) get(ctx context.Context, id ID) (record, error) {
	if _, err := ParseID(string(id)); err != nil {
		return record{}, err
	}
	d, err := q.document(ctx, q.paths.status(id))
	if err != nil {
		return record{}, err
	}
	r, err := parse(d)
	if err != nil {
		return record{}, q.about(id, err)
	}
	return r, nil
}

// document reads one document.
func (q *Queue) document(ctx context.Context, path string) (documents.Document, error) {
	all, err := q.docs.Get(ctx, documents.At(path))
	if err != nil {
		return documents.Document{}, err
	}
	return all[0], nil
}

// about is an error about a job.
func (q *Queue) about(id ID, err error) error {
	return fmt.Errorf("job %s of %s: %w", id, q.group.Name(), err)
}

// statuses reads the documents of jobs' statuses.
func (q *Queue) statuses(ctx context.Context, ids []ID) ([]documents.Document, error) {
	at := make([]string, 0, len(ids))
	for _, id := range ids {
		at = append(at, q.paths.status(id))
	}
	return q.docs.Get(ctx, documents.At(at...))
}

// open returns a job's status, and the job as it was submitted.
func (q *Queue) open(ctx context.Context, id ID) (r record, spec Spec, err error) {
	all, err := q.docs.Get(ctx, documents.At(q.paths.status(id), q.paths.spec(id)))
	if err != nil {
		return r, spec, err
	}
	if r, err = parse(all[0]); err == nil && !all[1].Exists() {
		err = errNoJob // it was forgotten meanwhile
	}
	if err == nil {
		err = json.Unmarshal(all[1].Data, &spec)
	}
	if err != nil {
		err = q.about(id, err)
	}
	return r, spec, err
}

// Spec returns a job as it was submitted.
func (q *Queue) Spec(ctx context.Context, id ID) (spec Spec, err error) {
	if _, err := ParseID(string(id)); err != nil {
		return Spec{}, err
	}
	d, err := q.document(ctx, q.paths.spec(id))
	switch {
	case err != nil:
		return Spec{}, err
	case !d.Exists():
		return Spec{}, q.about(id, errNoJob)
	}
	return spec, json.Unmarshal(d.Data, &spec)
}

// listPage is how many statuses are read at a time.
const listPage = 500

// List calls each with the status of every job, the oldest first, until it returns an error, which
// List returns. A status that cannot be read is left out and part of the error.
func (q *Queue) List(ctx context.Context, each func(Status) error) error {
	names, err := q.docs.Names(ctx, q.paths.statuses())
	if err != nil {
		return err
	}
	return q.read(ctx, names, listPage, each)
}

// read reads the statuses of these names as List does, so many at a time.
func (q *Queue) read(
	ctx context.Context, names []string, together int, each func(Status) error,
) error {
	var bad []error
	ids := make([]ID, 0, len(names))
	for _, name := range names {
		ids = append(ids, ID(name))
	}
	for some := range slices.Chunk(ids, together) {
		all, err := q.statuses(ctx, some)
		if err != nil {
			return err
		}
		for _, d := range all {
			r, err := parse(d)
			if errors.Is(err, errNoJob) {
				continue // forgotten meanwhile
			}
			if err != nil {
				bad = append(bad, err)
				continue
			}
			if err := each(r.Status); err != nil {
				return err
			}
		}
	}
	return errors.Join(bad...)
}

// Watch calls each with a job's status now and after every change, until ctx ends or each returns
// an error, which Watch returns. The error is ErrUnknownJob once there is no such job.
func (q *Queue) Watch(ctx context.Context, id ID, each func(Status) error) error {
	if _, err := ParseID(string(id)); err != nil {
		return err
	}
	return q.docs.Watch(ctx, q.paths.status(id), func(d documents.Document) error {
		r, err := parse(d)
		if err != nil {
			return q.about(id, err)
		}
		return each(r.Status)
	})
}

// Wait returns a job's status once it has ended.
func (q *Queue) Wait(ctx context.Context, id ID) (end Status, err error) {
	ended := errors.New("the job has ended")
	err = q.Watch(ctx, id, func(s Status) error {
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
func (q *Queue) Cancel(ctx context.Context, id ID) error {
	sent := false // a change, of which the answer may have been lost
	_, err := q.step(ctx, id, record{}, func(r record) ([]documents.Write, error) {
		switch {
		case r.State == Cancelled && sent:
			return nil, nil
		case r.State.Finished():
			return nil, fmt.Errorf("%w: %s is %s", ErrWrongState, id, r.State)
		case r.State == Waiting:
			sent = true
			return q.changes.cancelNow(r, q.now()), nil
		}
		asked, err := q.request(ctx, id)
		if err != nil || asked.Exists() {
			return nil, err
		}
		sent = true
		// The status is kept, so that the request is not left behind by a job that ends meanwhile.
		return []documents.Write{documents.Check(r.doc), documents.Create(q.paths.cancellation(id), nil)},
			nil
	})
	return err
}

// Retry makes a job that has failed or was cancelled wait again. ErrWrongState: it is in another
// state. ErrTaken: another job has its unique key now.
func (q *Queue) Retry(ctx context.Context, id ID) error {
	sent := false // a change, of which the answer may have been lost
	_, err := q.step(ctx, id, record{}, func(r record) ([]documents.Write, error) {
		switch {
		case r.State == Failed || r.State == Cancelled:
			other, err := q.holder(ctx, r.Unique)
			if err != nil {
				return nil, err
			}
			if other != "" {
				return nil, fmt.Errorf("%w: %s has %q", ErrTaken, other, r.Unique)
			}
			asked, err := q.request(ctx, id)
			if err != nil {
				return nil, err
			}
			sent = true
			writes := q.changes.retry(r, q.now())
			if asked.Exists() { // it has ended the job, or has come too late
				writes = append(writes, documents.Delete(asked))
			}
			return writes, nil
		case sent:
			return nil, nil
		}
		return nil, fmt.Errorf("%w: %s is %s", ErrWrongState, id, r.State)
	})
	return err
}

// holder returns the unfinished job that has a unique key; "" if there is none.
func (q *Queue) holder(ctx context.Context, key string) (ID, error) {
	if key == "" {
		return "", nil
	}
	d, err := q.document(ctx, q.paths.unique(key))
	return ID(d.Data), err
}

// step makes a step of a job's life, from its status as it was read before, if r is one, or as it
// is now, and again after a conflict. It makes none if next returns none. It returns the status
// that the step has made, if that is next's first write.
func (q *Queue) step(
	ctx context.Context, id ID, r record, next func(record) ([]documents.Write, error),
	while ...fence.Claim,
) (made record, err error) {
	var refused error
	lost := false
	err = retry(ctx, func() (err error) {
		if !r.doc.Exists() {
			if r, err = q.get(ctx, id); err != nil {
				return err
			}
		}
		from := r
		from.lost = lost
		r = record{} // it is read anew if this fails
		writes, err := next(from)
		if err != nil || len(writes) == 0 {
			made, refused = from, err
			return nil
		}
		versions, err := q.change(ctx, documents.Change{While: while, Writes: writes})
		if err == nil {
			made, _ = parse(documents.Document{
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
		err = q.about(id, err)
	}
	return made, err
}

// returned is the step of a worker that does not run a job to its end.
func (q *Queue) returned(r record) []documents.Write { return q.changes.giveBack(r, nil, q.now()) }

// cancelled is the step of a worker that has heard of a request to cancel a job. It deletes the
// request. If there is none any more, the job was tried again since, and is given back.
func (q *Queue) cancelled(ctx context.Context, r record) ([]documents.Write, error) {
	asked, err := q.request(ctx, r.ID)
	switch {
	case err != nil:
		return nil, err
	case !asked.Exists():
		return q.returned(r), nil
	}
	return append(q.changes.cancelNow(r, q.now()), documents.Delete(asked)), nil
}

// request returns the request to cancel a job.
func (q *Queue) request(ctx context.Context, id ID) (documents.Document, error) {
	return q.document(ctx, q.paths.cancellation(id))
}
