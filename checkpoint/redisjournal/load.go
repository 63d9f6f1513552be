package redisjournal

import (
	"context"
	"errors"
	"fmt"
	"slices"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/checkpoint"
)

// together is how many checkpoints one pipeline reads.
const together = 32

// Load implements checkpoint.Journal. If a checkpoint cannot be read, it returns an error with the
// key, together with the other checkpoints.
func (j *Journal) Load(
	ctx context.Context, only ...checkpoint.Name,
) (all []checkpoint.Checkpoint, err error) {
	names := only
	if len(names) == 0 {
		if names, err = j.tasks(ctx); err != nil {
			return nil, read(ctx, err)
		}
	}
	var corrupt error
	for some := range slices.Chunk(slices.Compact(slices.Sorted(slices.Values(names))), together) {
		found, err := j.load(ctx, some)
		if err != nil && !errors.Is(err, checkpoint.ErrCorrupt) {
			return nil, err
		}
		all, corrupt = append(all, found...), errors.Join(corrupt, err)
	}
	return all, corrupt
}

// tasks returns the names of all published tasks.
func (j *Journal) tasks(ctx context.Context) (names []checkpoint.Name, err error) {
	list, err := j.db.SMembers(ctx, tasksKey).Result()
	for _, name := range list {
		names = append(names, checkpoint.Name(name))
	}
	return names, err
}

// load reads checkpoints in one round trip, but not in one moment.
func (j *Journal) load(
	ctx context.Context, names []checkpoint.Name,
) (found []checkpoint.Checkpoint, corrupt error) {
	p := j.db.Pipeline()
	stored := make([]*driver.SliceCmd, len(names))
	for i, name := range names {
		stored[i] = p.HMGet(ctx, key(name), "version", "checkpoint")
	}
	_, _ = p.Exec(ctx)
	for i, name := range names {
		fields, err := stored[i].Result()
		switch {
		case err != nil:
			if err = read(ctx, err); !errors.Is(err, checkpoint.ErrCorrupt) {
				return nil, err
			}
			err = fmt.Errorf("the key %s: %w", key(name), err)
		case fields[0] == nil && fields[1] == nil:
			continue
		default:
			var cp checkpoint.Checkpoint
			if cp, err = decode(name, text(fields[0]), text(fields[1])); err == nil {
				found = append(found, cp)
			}
		}
		corrupt = errors.Join(corrupt, err)
	}
	return found, corrupt
}
