package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
)

// tries is how often a call begins again because the document has changed since it was read.
const tries = 10

// Journal keeps checkpoints as documents. It ends with their coordinator.
type Journal struct {
	docs  documents.Store
	known cache
}

var _ checkpoint.Journal = (*Journal)(nil)

// New returns the journal in the documents of a coordinator.
func New(docs documents.Store) *Journal { return &Journal{docs: docs} }

// Raise implements fence.Raiser. There is no mark to raise; it confirms that the claim leads.
func (j *Journal) Raise(ctx context.Context, c fence.Claim) error {
	_, err := j.docs.Get(ctx, documents.Read{While: []fence.Claim{c}})
	return outcome(ctx, err)
}

// TakeOver implements checkpoint.Journal.
func (j *Journal) TakeOver(
	ctx context.Context, c fence.Claim, task checkpoint.Name, have int64,
) (cp checkpoint.Checkpoint, same bool, err error) {
	cp, _, err = j.read(ctx, c, task)
	if err != nil || cp.Version != have {
		return cp, false, err
	}
	return checkpoint.Checkpoint{}, true, nil
}

// read reads a task's checkpoint under the claim, whose resource's task it must be. Version 0:
// there is none.
func (j *Journal) read(
	ctx context.Context, c fence.Claim, task checkpoint.Name,
) (cp checkpoint.Checkpoint, is known, err error) {
	at, err := pathOf(task)
	if err != nil {
		return cp, is, err
	}
	docs, err := j.docs.Get(ctx, documents.Read{While: []fence.Claim{c}, Paths: []string{at}})
	if err != nil {
		return cp, is, outcome(ctx, err)
	}
	if docs[0].Exists() {
		if cp, err = decode(docs[0]); err == nil && cp.Resource != c.Resource {
			err = otherResource(task, cp.Resource, c)
		}
		if err != nil {
			return checkpoint.Checkpoint{}, is, err
		}
		is = known{cp.Version, docs[0].Version, c}
	}
	j.known.learn(task, is)
	return cp, is, nil
}

// Publish implements checkpoint.Journal. The change names the version of the document in which the
// checkpoint before it was read, so the task's resource is still what it was there.
func (j *Journal) Publish(ctx context.Context, c fence.Claim, cp checkpoint.Checkpoint) error {
	at, err := pathOf(cp.Task)
	if err != nil {
		return err
	}
	if cp.Resource != c.Resource {
		if err := j.Raise(ctx, c); err != nil { // who does not lead hears that first
			return err
		}
		return otherResource(cp.Task, cp.Resource, c)
	}
	data, err := json.Marshal(cp)
	if err != nil {
		return fmt.Errorf("checkpoint %d of %s cannot be written as JSON; nothing has landed: %w",
			cp.Version, cp.Task, err)
	}
	for n := range tries {
		before, err := j.before(ctx, c, cp, n == 0)
		if err != nil {
			return err
		}
		write := documents.Replace(documents.Document{Path: at, Version: before.document}, data)
		made, err := j.docs.Change(ctx, documents.Change{
			While: []fence.Claim{c}, Writes: []documents.Write{write},
		})
		if err == nil {
			j.known.learn(cp.Task, known{cp.Version, made[0], c})
			return nil
		}
		j.known.forget(cp.Task)
		if !errors.Is(err, documents.ErrConflict) {
			return outcome(ctx, err)
		}
	}
	return fmt.Errorf("%w: %s changes all the time; nothing has landed", checkpoint.ErrTransient,
		cp.Task)
}

// before returns the checkpoint that cp follows. ErrConflict: there is another one. If it may
// guess, it goes by what is known here, and the change compares the document's version. Only what
// was read in the same term counts: a task that was forgotten and begun again since, maybe under
// another resource, may have a document with a version that it has had before.
func (j *Journal) before(
	ctx context.Context, c fence.Claim, cp checkpoint.Checkpoint, guess bool,
) (known, error) {
	if is := j.known.of(cp.Task); guess && is.version == cp.Version-1 &&
		(is.version == 0 || is.under == c) {
		return is, nil
	}
	now, is, err := j.read(ctx, c, cp.Task)
	if err == nil && now.Version != cp.Version-1 {
		err = fmt.Errorf("%w: version %d of %s cannot follow version %d; nothing was changed",
			checkpoint.ErrConflict, cp.Version, cp.Task, now.Version)
	}
	return is, err
}

// Forget implements checkpoint.Journal. It deletes the version that was read under the claim.
func (j *Journal) Forget(ctx context.Context, c fence.Claim, task checkpoint.Name) error {
	at, err := pathOf(task)
	if err != nil {
		return err
	}
	for n := range tries {
		is := j.known.of(task)
		if n > 0 || is.version == 0 || is.under != c {
			if _, is, err = j.read(ctx, c, task); err != nil || is.version == 0 {
				return err
			}
		}
		j.known.forget(task)
		_, err = j.docs.Change(ctx, documents.Change{
			While:  []fence.Claim{c},
			Writes: []documents.Write{documents.Delete(documents.Document{Path: at, Version: is.document})},
		})
		if !errors.Is(err, documents.ErrConflict) {
			return outcome(ctx, err)
		}
	}
	return fmt.Errorf("%w: %s was published again each time that it was to be deleted",
		checkpoint.ErrTransient, task)
}
