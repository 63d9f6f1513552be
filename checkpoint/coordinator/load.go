package coordinator

import (
	"context"
	"errors"
	"slices"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence/documents"
)

// page is how many checkpoints are read in one request.
const page = 16

// Load implements checkpoint.Journal. If some documents are not checkpoints, it returns the others
// together with an error that names them and matches ErrCorrupt.
func (j *Journal) Load(
	ctx context.Context, only ...checkpoint.Name,
) (all []checkpoint.Checkpoint, err error) {
	paths, err := j.paths(ctx, only)
	if err != nil {
		return nil, err
	}
	var bad []error
	for some := range slices.Chunk(paths, page) {
		docs, err := j.docs.Get(ctx, documents.At(some...))
		if err != nil {
			return nil, outcome(ctx, err)
		}
		for _, d := range docs {
			if !d.Exists() {
				continue // never published, or just deleted
			}
			cp, err := decode(d)
			if err != nil {
				bad = append(bad, err)
				continue
			}
			all = append(all, cp)
		}
	}
	return all, errors.Join(bad...)
}

// paths returns the documents of these tasks, or of all, sorted and without duplicates.
func (j *Journal) paths(ctx context.Context, only []checkpoint.Name) (paths []string, err error) {
	if len(only) == 0 {
		names, err := j.docs.Names(ctx, folder)
		if err != nil {
			return nil, outcome(ctx, err)
		}
		for _, name := range names {
			if task, err := taskIn(name); err == nil { // else it is no checkpoint of ours
				only = append(only, task)
			}
		}
	}
	only = slices.Sorted(slices.Values(only))
	for _, task := range slices.Compact(only) {
		at, err := pathOf(task)
		if err != nil {
			return nil, err
		}
		paths = append(paths, at)
	}
	return paths, nil
}

// Follow implements checkpoint.Journal. It ends with ErrCorrupt if the document is not a
// checkpoint, and if the coordinator refuses a request. A checkpoint that was forgotten and
// published again counts as newer.
func (j *Journal) Follow(
	ctx context.Context, task checkpoint.Name, each func(checkpoint.Checkpoint) error,
) error {
	at, err := pathOf(task)
	if err != nil {
		return err
	}
	return j.docs.Watch(ctx, at, func(d documents.Document) error {
		if !d.Exists() {
			return nil
		}
		cp, err := decode(d)
		if err != nil {
			return err
		}
		return each(cp)
	})
}
