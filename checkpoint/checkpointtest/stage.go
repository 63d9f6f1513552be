package checkpointtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
)

const (
	orders fence.Resource = "orders"
	stock  fence.Resource = "stock"

	nightly checkpoint.Name = "nightly-2026-11-21"
	hourly  checkpoint.Name = "hourly"
)

// patience bounds a whole clause: hundreds of writes, each of which may wait for a slow disk.
const patience = time.Minute

// stage is what a clause works with: the fixture, a context with a deadline, and steps that fail
// the test.
type stage struct {
	testing.TB
	Fixture
	ctx      context.Context
	patience time.Duration // of ctx
}

func newStage(t testing.TB, f Fixture, patience time.Duration) *stage {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return &stage{TB: t, Fixture: f, ctx: ctx, patience: patience}
}

// lead makes a new leader.
func (k *stage) lead(r fence.Resource) fence.Claim {
	k.Helper()
	return k.Lead(k, r)
}

// version returns a checkpoint as the claim's leader would publish it. Two checkpoints with one
// version and different marks differ in nonce and state.
func version(n int64, c fence.Claim, task checkpoint.Name, by string) checkpoint.Checkpoint {
	nonce := fmt.Sprintf("%s-%s-%d", by, c.Token, n)
	return checkpoint.Checkpoint{
		Task: task, Resource: c.Resource, Version: n, Nonce: nonce, Token: c.Token, Holder: c.Holder,
		Run: 1, Round: n, Rounds: checkpoint.Forever, Steps: []string{"only"}, Status: checkpoint.Running,
		State: json.RawMessage(fmt.Sprintf(`{"written":%q}`, nonce)),
		Saved: time.Date(2026, 11, 21, 3, 4, 5, 678901000, time.UTC),
	}
}

// patiently repeats a call as long as the journal returns ErrTransient.
func (k *stage) patiently(call func() error) error {
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		err := call()
		if !errors.Is(err, checkpoint.ErrTransient) {
			return err
		}
		select {
		case <-time.After(pause):
		case <-k.ctx.Done():
			return err
		}
	}
}

// try publishes.
func (k *stage) try(j checkpoint.Journal, c fence.Claim, cp checkpoint.Checkpoint) error {
	return k.patiently(func() error { return j.Publish(k.ctx, c, cp) })
}

// publish must land.
func (k *stage) publish(c fence.Claim, cp checkpoint.Checkpoint) checkpoint.Checkpoint {
	k.Helper()
	if err := k.try(k.Journal, c, cp); err != nil {
		k.Fatalf("publish version %d of %s under %s: %v", cp.Version, cp.Task, c, err)
	}
	return cp
}

// tryTake reads under the claim.
func (k *stage) tryTake(
	j checkpoint.Journal, c fence.Claim, task checkpoint.Name, have int64,
) (cp checkpoint.Checkpoint, same bool, err error) {
	err = k.patiently(func() (err error) {
		cp, same, err = j.TakeOver(k.ctx, c, task, have)
		return err
	})
	return cp, same, err
}

// take must answer with the checkpoint.
func (k *stage) take(
	j checkpoint.Journal, c fence.Claim, task checkpoint.Name,
) checkpoint.Checkpoint {
	k.Helper()
	cp, same, err := k.tryTake(j, c, task, -1)
	if err != nil || same {
		k.Fatalf("take %s under %s, having no version: same is %v, %v", task, c, same, err)
	}
	return cp
}

// load must answer.
func (k *stage) load(j checkpoint.Journal, only ...checkpoint.Name) (all []checkpoint.Checkpoint) {
	k.Helper()
	err := k.patiently(func() (err error) {
		all, err = j.Load(k.ctx, only...)
		return err
	})
	if err != nil {
		k.Fatalf("load %q: %v", only, err)
	}
	return all
}

// stays fails the test unless both processes see exactly this checkpoint, or nothing if its version
// is 0.
func (k *stage) stays(task checkpoint.Name, want checkpoint.Checkpoint) {
	k.Helper()
	for _, j := range []checkpoint.Journal{k.Journal, k.Second} {
		all := k.load(j, task)
		switch {
		case len(all) == 0 && want.Version == 0:
		case len(all) != 1:
			k.Fatalf("%d checkpoints of %s are stored, want version %d", len(all), task, want.Version)
		default:
			k.equal(all[0], want)
		}
	}
}
