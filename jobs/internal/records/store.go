// Package records keeps the jobs of a group in documents. It knows their paths, and the writes of
// each step of a job's life.
package records

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/fence/group"
	"github.com/ringfence/ringfence/jobs/job"
)

// Store is the documents of a group's jobs. Its methods may be called from any goroutine.
type Store struct {
	At      documents.Coordinator
	Docs    documents.Store
	Group   *group.Group
	Paths   Paths
	Changes Changes
	Now     func() time.Time
}

// Open returns the documents of a group's jobs. The name is a group's (group.New). Nothing is
// sent.
func Open(c documents.Coordinator, name string) (*Store, error) {
	g, err := group.New(c, name)
	if err != nil {
		return nil, err
	}
	return &Store{
		At: c, Docs: c.Documents(), Group: g, Paths: PathsOf(name), Changes: Changes{PathsOf(name)},
		Now: time.Now,
	}, nil
}

// Leader returns the election in which the worker that assigns is elected.
func (q *Store) Leader() fence.Resource { return fence.Resource("jobs_" + q.Group.Name()) }

// Create creates a document that may be there already.
func (q *Store) Create(ctx context.Context, path string, data []byte) error {
	return Retry(ctx, func() error {
		_, err := q.Docs.Change(ctx,
			documents.Change{Writes: []documents.Write{documents.Create(path, data)}})
		if errors.Is(err, documents.ErrConflict) {
			return nil // it is there, or an answer was lost
		}
		return err
	})
}

func (q *Store) Get(ctx context.Context, id job.ID) (Record, error) {
	if _, err := job.ParseID(string(id)); err != nil {
		return Record{}, err
	}
	d, err := q.Document(ctx, q.Paths.Status(id))
	if err != nil {
		return Record{}, err
	}
	r, err := Parse(d)
	if err != nil {
		return Record{}, q.About(id, err)
	}
	return r, nil
}

// Document reads one document.
func (q *Store) Document(ctx context.Context, path string) (documents.Document, error) {
	all, err := q.Docs.Get(ctx, documents.At(path))
	if err != nil {
		return documents.Document{}, err
	}
	return all[0], nil
}

// About is an error about a job.
func (q *Store) About(id job.ID, err error) error {
	return fmt.Errorf("job %s of %s: %w", id, q.Group.Name(), err)
}

// Statuses reads the documents of jobs' statuses.
func (q *Store) Statuses(ctx context.Context, ids []job.ID) ([]documents.Document, error) {
	at := make([]string, 0, len(ids))
	for _, id := range ids {
		at = append(at, q.Paths.Status(id))
	}
	return q.Docs.Get(ctx, documents.At(at...))
}

// Open returns a job's status, and the job as it was submitted.
func (q *Store) Open(ctx context.Context, id job.ID) (r Record, spec job.Spec, err error) {
	all, err := q.Docs.Get(ctx, documents.At(q.Paths.Status(id), q.Paths.spec(id)))
	if err != nil {
		return r, spec, err
	}
	if r, err = Parse(all[0]); err == nil && !all[1].Exists() {
		err = job.ErrNotFound // it was forgotten meanwhile
	}
	if err == nil {
		err = json.Unmarshal(all[1].Data, &spec)
	}
	if err != nil {
		err = q.About(id, err)
	}
	return r, spec, err
}

// ListPage is how many statuses are read at a time.
const ListPage = 500

// Read reads the statuses of these names as List does, so many at a time.
func (q *Store) Read(
	ctx context.Context, names []string, together int, each func(job.Status) error,
) error {
	var bad []error
	ids := make([]job.ID, 0, len(names))
	for _, name := range names {
		ids = append(ids, job.ID(name))
	}
	for some := range slices.Chunk(ids, together) {
		all, err := q.Statuses(ctx, some)
		if err != nil {
			return err
		}
		for _, d := range all {
			r, err := Parse(d)
			if errors.Is(err, job.ErrNotFound) {
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

// Spec returns a job as it was submitted.
func (q *Store) Spec(ctx context.Context, id job.ID) (spec job.Spec, err error) {
	if _, err := job.ParseID(string(id)); err != nil {
		return job.Spec{}, err
	}
	d, err := q.Document(ctx, q.Paths.spec(id))
	switch {
	case err != nil:
		return job.Spec{}, err
	case !d.Exists():
		return job.Spec{}, q.About(id, job.ErrNotFound)
	}
	return spec, json.Unmarshal(d.Data, &spec)
}

// StatusesIn reads the statuses of jobs, in their order, and leaves out what is forgotten, cannot
// be read, or is in another state.
func (q *Store) StatusesIn(
	ctx context.Context, ids []job.ID, in func(job.State) bool,
) ([]job.Status, error) {
	all := make([]job.Status, 0, len(ids))
	for some := range slices.Chunk(ids, ListPage) {
		docs, err := q.Statuses(ctx, some)
		if err != nil {
			return all, err
		}
		for _, d := range docs {
			if r, err := Parse(d); err == nil && in(r.State) {
				all = append(all, r.Status)
			}
		}
	}
	return all, nil
}

func Set(names []string) map[string]bool {
	set := map[string]bool{}
	for _, n := range names {
		set[n] = true
	}
	return set
}
