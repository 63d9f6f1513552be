package zookeeper

import (
	"context"
	"errors"
	"slices"

	"github.com/ringfence/ringfence/checkpoint"
)

// Load implements checkpoint.Journal. If some znodes are not checkpoints, it returns the others
// together with an error that names them and matches ErrCorrupt.
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
			continue // never published, or just deleted
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

// named returns the names to read, sorted and without duplicates.
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

// Follow implements checkpoint.Journal. It watches the znode. It also reads it after each
// disconnection and once per session timeout. It ends with ErrCorrupt if the znode is not a
// checkpoint, and if ZooKeeper refuses a request.
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
