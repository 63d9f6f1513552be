package checkpointtest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
)

// Memory is the reference journal: one lock, one mark for each resource, one checkpoint for each
// task. It is also a checkpoint.Transactor[*Tx].
type Memory struct {
	// Fail, if not nil, chooses the fault of each call; cp has at least the task, or for Raise the
	// resource. It is called without a lock, so it may block, like a process that is paused just
	// before the call. Set it before the first call.
	Fail func(op Op, cp checkpoint.Checkpoint) Fault
	// Limit is the maximum size of a checkpoint as JSON, in bytes; 0 means no limit. Set it before
	// the first call.
	Limit int

	mu      sync.Mutex
	marks   map[fence.Resource]fence.Claim
	stored  map[checkpoint.Name][]byte // as JSON, so that callers share no memory with it
	effects []Effect
	changed chan struct{} // closed when a checkpoint lands
}

var (
	_ checkpoint.Journal         = (*Memory)(nil)
	_ checkpoint.Transactor[*Tx] = (*Memory)(nil)
)

// NewMemory makes an empty journal.
func NewMemory() *Memory {
	return &Memory{
		marks:   make(map[fence.Resource]fence.Claim),
		stored:  make(map[checkpoint.Name][]byte),
		changed: make(chan struct{}),
	}
}

// Raise sets the mark unless that would lower it or change its issuer.
func (m *Memory) Raise(ctx context.Context, c fence.Claim) error {
	return m.call(ctx, Raise, checkpoint.Checkpoint{Resource: c.Resource}, func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		if err := m.admit(c); err != nil && !errors.Is(err, fence.ErrNotRaised) {
			return err
		}
		m.marks[c.Resource] = c
		return nil
	})
}

// TakeOver reads a checkpoint under the claim.
func (m *Memory) TakeOver(
	ctx context.Context, c fence.Claim, task checkpoint.Name, have int64,
) (cp checkpoint.Checkpoint, same bool, err error) {
	err = m.call(ctx, TakeOver, checkpoint.Checkpoint{Task: task, Resource: c.Resource}, func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		if err := m.admit(c); err != nil {
			return err
		}
		cp = m.read(task)
		return owned(cp, c)
	})
	if err != nil || cp.Version == have {
		return checkpoint.Checkpoint{}, err == nil, err
	}
	return cp, false, nil
}

// Publish writes a checkpoint under the claim.
func (m *Memory) Publish(ctx context.Context, c fence.Claim, cp checkpoint.Checkpoint) error {
	return m.call(ctx, Publish, cp, func() error { return m.land(c, cp, nil) })
}

// Forget deletes a checkpoint under the claim.
func (m *Memory) Forget(ctx context.Context, c fence.Claim, task checkpoint.Name) error {
	return m.call(ctx, Forget, checkpoint.Checkpoint{Task: task, Resource: c.Resource}, func() error {
		return m.drop(c, task)
	})
}

// Load reads checkpoints, sorted by name.
func (m *Memory) Load(_ context.Context, only ...checkpoint.Name) ([]checkpoint.Checkpoint, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []checkpoint.Checkpoint
	for _, task := range slices.Sorted(maps.Keys(m.stored)) {
		if len(only) == 0 || slices.Contains(only, task) {
			all = append(all, m.read(task))
		}
	}
	return all, nil
}

// Follow calls each with the checkpoint and its successors. When ctx ends, it returns the cause.
func (m *Memory) Follow(
	ctx context.Context, task checkpoint.Name, each func(checkpoint.Checkpoint) error,
) error {
	for seen := int64(0); ; {
		m.mu.Lock()
		cp, changed := m.read(task), m.changed
		m.mu.Unlock()
		if cp.Version > seen {
			seen = cp.Version
			if err := each(cp); err != nil {
				return err
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
