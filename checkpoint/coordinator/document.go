package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
)

const folder = "checkpoints"

// pathOf returns the path of a task's document. A document's name may not have ':', and a task's
// not '='.
func pathOf(task checkpoint.Name) (string, error) {
	if _, err := checkpoint.ParseName(string(task)); err != nil {
		return "", err
	}
	return folder + "/" + strings.ReplaceAll(string(task), ":", "="), nil
}

// taskIn returns the task whose document has this name.
func taskIn(name string) (checkpoint.Name, error) {
	return checkpoint.ParseName(strings.ReplaceAll(name, "=", ":"))
}

// decode reads a checkpoint from its document.
func decode(d documents.Document) (cp checkpoint.Checkpoint, err error) {
	task, err := taskIn(path.Base(d.Path))
	if err == nil {
		err = json.Unmarshal(d.Data, &cp)
	}
	if err == nil {
		_, err = fence.ParseResource(string(cp.Resource))
	}
	switch {
	case err != nil:
	case cp.Task != task:
		err = fmt.Errorf("it says that it is of task %.140q", cp.Task)
	case cp.Version < 1:
		err = fmt.Errorf("it has version %d", cp.Version)
	default:
		return cp, nil
	}
	return checkpoint.Checkpoint{}, fmt.Errorf("%w: the document %s is no checkpoint: %w; "+
		"nothing was changed: repair it, or delete it to begin the task again", checkpoint.ErrCorrupt,
		d.Path, err)
}

func otherResource(task checkpoint.Name, owner fence.Resource, c fence.Claim) error {
	return fmt.Errorf("%w: %s is a task of %q, the claim is to %q; nothing was changed",
		checkpoint.ErrOtherResource, task, owner, c.Resource)
}

// outcome translates an error of the documents into one of checkpoint.Journal's. ctx is the context
// of the call. If it has ended, nothing has landed, unless the error is documents.ErrUnknown.
func outcome(ctx context.Context, err error) error {
	_, refusal := errors.AsType[*fence.Refusal](err)
	switch {
	case err == nil || refusal:
		return err
	case errors.Is(err, documents.ErrUnknown):
		return fmt.Errorf("%w: %w", checkpoint.ErrUnknown, err)
	case errors.Is(err, documents.ErrTooLarge):
		return fmt.Errorf("%w: %w", checkpoint.ErrTooLarge, err)
	case errors.Is(err, documents.ErrUnreachable) || ctx.Err() != nil:
		return fmt.Errorf("%w: %w", checkpoint.ErrTransient, err)
	}
	return err
}

// known is a checkpoint as it was last read or written here. The zero value: there was none, or
// nothing is known.
type known struct {
	version  int64 // of the checkpoint
	document int64 // the version of its document
	under    fence.Claim
}

// maxKnown bounds the cache. A task that is not in it costs a read.
const maxKnown = 10_000

// cache remembers checkpoints, so that a publish costs one request. What it says may be old: the
// change compares the document's version.
type cache struct {
	mu  sync.Mutex
	all map[checkpoint.Name]known
}

func (c *cache) of(task checkpoint.Name) known {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all[task]
}

func (c *cache) learn(task checkpoint.Name, is known) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil || len(c.all) >= maxKnown {
		c.all = map[checkpoint.Name]known{}
	}
	c.all[task] = is
}

func (c *cache) forget(task checkpoint.Name) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.all, task)
}
