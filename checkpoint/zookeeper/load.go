package zookeeper

import (
	"context"
	"errors"
	"slices"

	"github.com/ringfence/ringfence/checkpoint"
)

// Load implements checkpoint.Journal. Those that cannot be read as checkpoints are left out of the
// answer and told by the error, which matches ErrCorrupt; the others are returned all the same.
func (j *Journal) Load(
	ctx context.Context, only ...checkpoint.Name,
) (all []checkpoint.Checkpoint, err error) {
	names, err := j.named(ctx, only)
	if err != nil {
		return nil, err
	}
	var bad []error
	for _, name := range names {
		doc, err := j.documents.Read(ctx, string(name))
		if err != nil {
			return nil, answer(ctx, err)
		}
		if doc.Version == 0 {
			continue // never published, or deleted meanwhile
		}
		cp, err := j.decode(doc)
		if err != nil {
			bad = append(bad, err)
			continue
		}
		all = append(all, cp)
	}
	return all, errors.Join(bad...)
}

// named are the names to read, in order, each once.
func (j *Journal) named(
	ctx context.Context, only []checkpoint.Name,
) (names []checkpoint.Name, err error) {
	for _, name := range only {
		if _, err := checkpoint.ParseName(string(name)); err != nil {
			return nil, err
		}
	}
	names = slices.Clone(only)
	if len(only) == 0 {
		all, err := j.documents.Names(ctx)
		if err != nil {
			return nil, answer(ctx, err)
		}
		for _, s := range all {
			if name, err := checkpoint.ParseName(s); err == nil { // else it is no checkpoint of ours
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// Follow implements checkpoint.Journal. It watches the znode, looks again after each disconnection,
// and once in a session timeout whatever happens. It ends with ErrCorrupt when there is something
// that is no checkpoint, and when ZooKeeper refuses.
func (j *Journal) Follow(
	ctx context.Context, task checkpoint.Name, each func(checkpoint.Checkpoint) error,
) error {
	if _, err := checkpoint.ParseName(string(task)); err != nil {
		return err
	}
	return j.documents.Follow(ctx, string(task), func(doc document) error {
		cp, err := j.decode(doc)
		if err != nil {
			return err
		}
		return each(cp)
	})
}
