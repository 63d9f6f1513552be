package checkpointtest

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
)

// land is the only place that writes checkpoints and effects: all or nothing, under one lock.
func (m *Memory) land(c fence.Claim, cp checkpoint.Checkpoint, effects []Effect) error {
	b, err := json.Marshal(cp)
	if err != nil {
		return fmt.Errorf("nothing has landed: %w", err)
	}
	if m.Limit > 0 && len(b) > m.Limit {
		return fmt.Errorf("%w: it has %d bytes, %d are allowed; nothing has landed",
			checkpoint.ErrTooLarge, len(b), m.Limit)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.admit(c); err != nil {
		return err
	}
	before := m.read(cp.Task)
	if err := errors.Join(owned(before, c), owned(cp, c)); err != nil {
		return err
	}
	if cp.Version < 1 || cp.Version-1 != before.Version {
		return fmt.Errorf("%w: version %d is stored, version %d cannot follow it; "+
			"nothing was changed", checkpoint.ErrConflict, before.Version, cp.Version)
	}
	m.stored[cp.Task] = b
	m.effects = append(m.effects, effects...)
	close(m.changed)
	m.changed = make(chan struct{})
	return nil
}

// drop is the only place that deletes checkpoints.
func (m *Memory) drop(c fence.Claim, task checkpoint.Name) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.admit(c); err != nil {
		return err
	}
	if err := owned(m.read(task), c); err != nil {
		return err
	}
	delete(m.stored, task)
	return nil
}

// read returns the stored checkpoint, or the zero one. The caller holds mu.
func (m *Memory) read(task checkpoint.Name) (cp checkpoint.Checkpoint) {
	if b, ok := m.stored[task]; ok {
		if err := json.Unmarshal(b, &cp); err != nil {
			panic(err) // land wrote it
		}
	}
	return cp
}

// owned fails unless the checkpoint belongs to the claim's resource or is the zero one.
func owned(cp checkpoint.Checkpoint, c fence.Claim) error {
	if cp.Task == "" || cp.Resource == c.Resource {
		return nil
	}
	return fmt.Errorf("%w: %s is a task of %q, the claim is for %q; nothing was changed",
		checkpoint.ErrOtherResource, cp.Task, cp.Resource, c.Resource)
}
