package checkpointtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/test/contract"
)

// fenceClauses also have what a claim that does not lead may forget: nothing.
var forgetClauses = []contract.Clause[*stage]{
	{Name: "A forgotten task has version 0, and Load leaves it out", Holds: forgottenIsGone},
	{
		Name:  "To forget a task twice, or one that was never published, is no error",
		Holds: nothingToForget,
	},
	{Name: "A task of another resource is not forgotten", Holds: otherResourceForgetsNothing},
	{Name: "Nobody continues a forgotten task", Holds: forgottenIsNotContinued},
	{
		Name:  "The name of a forgotten task is free for a later leader of any resource",
		Holds: forgottenNameIsFree,
	},
	{Name: "A publish at the same time does not bring a forgotten task back", Holds: publishAtOnce},
	{
		Name: "Once a new leader has forgotten a task, no older one publishes it", Holds: forgetEndsOlder,
	},
	{Name: "The error of an interrupted forget is right about what happened", Holds: cutShortForget},
}

// tryForget forgets, and repeats that as long as the journal cannot say that it has happened.
func (k *stage) tryForget(j checkpoint.Journal, c fence.Claim, task checkpoint.Name) error {
	return k.patiently(func() error {
		err := j.Forget(k.ctx, c, task)
		if errors.Is(err, checkpoint.ErrUnknown) {
			return fmt.Errorf("%w: %v", checkpoint.ErrTransient, err)
		}
		return err
	})
}

// forget must succeed, and leave nothing.
func (k *stage) forget(j checkpoint.Journal, c fence.Claim, task checkpoint.Name) {
	k.Helper()
	if err := k.tryForget(j, c, task); err != nil {
		k.Fatalf("forget %s under %s: %v", task, c, err)
	}
	k.stays(task, checkpoint.Checkpoint{})
}

// begin publishes so many versions of nightly, through both journals in turn, with other nonces
// each time.
func (k *stage) begin(c fence.Claim, versions int64) (last checkpoint.Checkpoint) {
	k.Helper()
	by := rand.Text()
	for n := range versions {
		last = version(n+1, c, nightly, by)
		if err := k.try([]checkpoint.Journal{k.Journal, k.Second}[n%2], c, last); err != nil {
			k.Fatalf("publish version %d under %s: %v", n+1, c, err)
		}
	}
	return last
}

func forgottenIsGone(k *stage) {
	c := k.lead(orders)
	bystander := k.publish(c, version(1, c, hourly, "a"))
	for _, j := range []checkpoint.Journal{k.Journal, k.Second} {
		last := k.begin(c, 3)
		k.equal(k.take(j, c, nightly), last)
		k.forget(j, c, nightly)
		for _, reader := range []checkpoint.Journal{k.Journal, k.Second} {
			k.takesNothing(reader, c, nightly, 0, 1, 3)
			k.listed(k.load(reader), hourly)
		}
		k.stays(hourly, bystander)
	}
	k.stays(hourly, k.publish(c, version(2, c, hourly, "b")))
}

func nothingToForget(k *stage) {
	c := k.lead(orders)
	k.forget(k.Journal, c, nightly)
	k.begin(c, 2)
	for _, j := range []checkpoint.Journal{k.Journal, k.Second, k.Second} {
		k.forget(j, c, nightly)
	}
	c = k.lead(orders)
	k.forget(k.Journal, c, nightly)
	k.powerful(c, checkpoint.Checkpoint{})
}

func otherResourceForgetsNothing(k *stage) {
	owner := k.lead(orders)
	last := k.begin(owner, 2)
	stranger := k.lead(stock)
	for _, j := range []checkpoint.Journal{k.Journal, k.Second} {
		k.answered(k.tryForget(j, stranger, nightly), checkpoint.ErrOtherResource)
		k.stays(nightly, last)
	}
	k.powerful(owner, last)
}

func forgottenIsNotContinued(k *stage) {
	old := k.lead(orders)
	k.begin(old, 3)
	k.forget(k.Second, old, nightly)
	for _, j := range []checkpoint.Journal{k.Journal, k.Second} {
		for n := int64(2); n <= 5; n++ { // under a claim that is still the mark
			k.answered(k.try(j, old, version(n, old, nightly, "continued")), checkpoint.ErrConflict)
			k.stays(nightly, checkpoint.Checkpoint{})
		}
	}
	k.begin(old, 3)
	fresh := k.lead(orders)
	k.forget(k.Journal, fresh, nightly)
	k.powerless(old, fence.ErrStale, checkpoint.Checkpoint{})
	for c, want := range map[fence.Claim]error{old: fence.ErrStale, fresh: checkpoint.ErrConflict} {
		k.answered(k.try(k.Second, c, version(4, c, nightly, "continued")), want)
		k.stays(nightly, checkpoint.Checkpoint{})
	}
}

// The first journal knows the task under its first resource, and hears of nothing until it is
// asked.
func forgottenNameIsFree(k *stage) {
	c := k.lead(orders)
	last := k.begin(c, 3)
	k.equal(k.take(k.Journal, c, nightly), last)
	k.equal(k.take(k.Second, c, nightly), last)
	c = k.lead(orders)
	k.answered(k.tryForget(k.Second, c, nightly), nil)
	other := k.lead(stock)
	for n := range int64(3) {
		last = version(n+1, other, nightly, "other")
		k.answered(k.try(k.Second, other, last), nil)
	}
	for _, j := range []checkpoint.Journal{k.Journal, k.Second} {
		k.answered(k.try(j, c, version(4, c, nightly, "continued")), checkpoint.ErrOtherResource)
		_, same, err := k.tryTake(j, c, nightly, 3)
		k.answered(err, checkpoint.ErrOtherResource)
		if same {
			k.Fatal("the copy of a forgotten task is said to be current")
		}
		k.answered(k.tryForget(j, c, nightly), checkpoint.ErrOtherResource)
		k.stays(nightly, last)
		k.equal(k.take(j, other, nightly), last)
		last = version(last.Version+1, other, nightly, "other")
		k.answered(k.try(j, other, last), nil)
	}
	k.stays(nightly, last)
}

func publishAtOnce(k *stage) {
	c := k.lead(orders)
	for n := range 8 {
		k.begin(c, 1)
		answers := atOnce(4, func(i int) error {
			j := []checkpoint.Journal{k.Journal, k.Second}[i%2]
			if (i+n)%4 < 2 { // in each order
				return k.tryForget(j, c, nightly)
			}
			err := k.try(j, c, version(2, c, nightly, fmt.Sprint("rival ", i, " of ", n)))
			if errors.Is(err, checkpoint.ErrConflict) {
				return nil
			}
			return err
		})
		if err := errors.Join(answers...); err != nil {
			k.Fatal(err)
		}
		k.stays(nightly, checkpoint.Checkpoint{})
	}
}

func forgetEndsOlder(k *stage) {
	for range 4 {
		old := k.campaign(k.Second, k.lead(orders), endless)
		k.underway(old)
		fresh := k.lead(orders)
		k.forget(k.Journal, fresh, nightly)
		k.endsWith(old.done, fence.ErrStale)
		k.stays(nightly, checkpoint.Checkpoint{})
	}
}

// Each try has a name of its own, because a forget of unknown outcome may happen later.
func cutShortForget(k *stage) {
	rnd := k.random()
	c := k.lead(orders)
	task := func(n int64) checkpoint.Name { return checkpoint.Name(fmt.Sprint("cut-", n)) }
	usual := fastest(func(n int64) {
		k.publish(c, version(1, c, task(n), "whole"))
		k.forget(k.Journal, c, task(n))
	})
	for n := int64(warmUps) + 1; n < 30; n++ {
		k.publish(c, version(1, c, task(n), "cut"))
		ctx, cancel := context.WithTimeout(k.ctx, time.Duration(rnd.Int64N(int64(usual))))
		err := k.Journal.Forget(ctx, c, task(n))
		cancel()
		k.truthfulForget(err, c, task(n))
	}
}

// truthfulForget fails the test unless err is right about whether version 1 of a task was
// forgotten.
func (k *stage) truthfulForget(err error, c fence.Claim, task checkpoint.Name) {
	k.Helper()
	switch {
	case err == nil:
		k.stays(task, checkpoint.Checkpoint{})
	case errors.Is(err, checkpoint.ErrUnknown):
	default: // it has not happened, and will not
		next := version(2, c, task, "still there")
		if other := k.try(k.Second, c, next); other != nil {
			k.Fatalf("forget returned %v, and a publish after that %v", err, other)
		}
		k.stays(task, next)
	}
	k.forget(k.Second, c, task)
}
