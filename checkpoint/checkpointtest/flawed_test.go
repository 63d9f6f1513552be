package checkpointtest

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
)

// flawed is a Memory with methods that are wrong on purpose.
type flawed struct {
	*Memory
	raise func(ctx context.Context, c fence.Claim) error
	take  func(ctx context.Context, c fence.Claim, task checkpoint.Name,
		have int64) (checkpoint.Checkpoint, bool, error)
	publish func(ctx context.Context, c fence.Claim, cp checkpoint.Checkpoint) error
	forget  func(ctx context.Context, c fence.Claim, task checkpoint.Name) error
	load    func(ctx context.Context, only ...checkpoint.Name) ([]checkpoint.Checkpoint, error)
	follow  func(ctx context.Context, task checkpoint.Name,
		each func(checkpoint.Checkpoint) error) error
}

func (f *flawed) Raise(ctx context.Context, c fence.Claim) error { return f.raise(ctx, c) }

func (f *flawed) TakeOver(
	ctx context.Context, c fence.Claim, task checkpoint.Name, have int64,
) (checkpoint.Checkpoint, bool, error) {
	return f.take(ctx, c, task, have)
}

func (f *flawed) Publish(ctx context.Context, c fence.Claim, cp checkpoint.Checkpoint) error {
	return f.publish(ctx, c, cp)
}

func (f *flawed) Forget(ctx context.Context, c fence.Claim, task checkpoint.Name) error {
	return f.forget(ctx, c, task)
}

func (f *flawed) Load(
	ctx context.Context, only ...checkpoint.Name,
) ([]checkpoint.Checkpoint, error) {
	return f.load(ctx, only...)
}

func (f *flawed) Follow(
	ctx context.Context, task checkpoint.Name, each func(checkpoint.Checkpoint) error,
) error {
	return f.follow(ctx, task, each)
}

// mark returns the mark of the claim's resource.
func (m *Memory) mark(c fence.Claim) fence.Claim {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.marks[c.Resource]
}

// at returns the stored version.
func (m *Memory) at(task checkpoint.Name) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.read(task).Version
}

// force stores without a check of the version.
func (m *Memory) force(c fence.Claim, cp checkpoint.Checkpoint) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.admit(c); err != nil {
		return err
	}
	m.stored[cp.Task], _ = json.Marshal(cp)
	close(m.changed)
	m.changed = make(chan struct{})
	return nil
}

// unlist deletes without a check.
func (m *Memory) unlist(task checkpoint.Name) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.stored, task)
}

// flaw is one way in which a journal can be wrong, with words of the clause that must find it.
type flaw struct {
	name, finds string
	in          func(f *flawed)
}

var flaws = slices.Concat(versionFlaws, contentFlaws, fenceFlaws, forgetFlaws, loadFlaws,
	followFlaws, raceFlaws)
