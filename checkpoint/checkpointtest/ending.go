package checkpointtest

import (
	"context"
	"errors"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/test/contract"
)

var endClauses = []contract.Clause[*stage]{
	{Name: "A call with an ended context returns an error that is right about what landed",
		Holds: endedContext},
	{Name: "The error of an interrupted publish is right about what landed", Holds: cutShort},
}

func endedContext(k *stage) {
	c := k.lead(orders)
	k.publish(c, version(1, c, nightly, "a"))
	ended, end := context.WithCancel(k.ctx)
	end()
	if _, same, err := k.Journal.TakeOver(ended, c, nightly, 1); err == nil || same {
		k.Errorf("take: same is %v, %v", same, err)
	}
	k.publish(c, version(1, c, hourly, "a"))
	forgotten := k.Journal.Forget(ended, c, hourly)
	if forgotten == nil {
		k.Error("forget: no error")
	}
	k.truthfulForget(forgotten, c, hourly)
	cp := version(2, c, nightly, "late")
	err := k.Journal.Publish(ended, c, cp)
	if err == nil {
		k.Error("publish: no error")
	}
	k.truthful(err, c, cp)
}

func cutShort(k *stage) {
	rnd := k.random()
	c := k.lead(orders)
	usual := fastest(func(n int64) { k.publish(c, version(n, c, nightly, "whole")) })
	for n := int64(warmUps) + 1; n < 30; n++ {
		cp := version(n, c, nightly, "cut")
		ctx, cancel := context.WithTimeout(k.ctx, time.Duration(rnd.Int64N(int64(2*usual))))
		err := k.Journal.Publish(ctx, c, cp)
		cancel()
		k.truthful(err, c, cp)
	}
}

const warmUps = 3

// fastest returns how long the fastest of the first publishes takes.
func fastest(publish func(n int64)) time.Duration {
	least := time.Hour
	for n := range int64(warmUps) {
		start := time.Now()
		publish(n + 1)
		least = min(least, time.Since(start))
	}
	return max(least, 1)
}

// truthful fails the test unless err is right about whether cp landed. First it publishes something
// else as the same version, so that cp cannot land later.
func (k *stage) truthful(err error, c fence.Claim, cp checkpoint.Checkpoint) {
	k.Helper()
	instead := version(cp.Version, c, cp.Task, "instead")
	switch other := k.try(k.Second, c, instead); {
	case other == nil && err == nil:
		k.Fatalf("version %d was published twice", cp.Version)
	case other == nil:
		k.stays(cp.Task, instead)
	case !errors.Is(other, checkpoint.ErrConflict):
		k.Fatal(other)
	case err != nil && !errors.Is(err, checkpoint.ErrUnknown):
		k.Fatalf("it landed, and was answered with %v", err)
	default:
		k.stays(cp.Task, cp)
	}
}
