package checkpointtest

import (
	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/test/contract"
)

var fenceClauses = []contract.Clause[*stage]{
	{
		Name:  "A deposed leader can neither publish, take nor forget, and gets ErrStale",
		Holds: deposedIsStale,
	},
	{Name: "A deposed leader's publish is refused after a newer leader's", Holds: deposedBehindNewer},
	{Name: "Nothing brings a deposed leader back", Holds: deposedStaysDeposed},
	{Name: "A leader may raise again", Holds: raiseAgain},
	{Name: "A claim to which the mark is not raised is refused", Holds: unraisedIsRefused},
	{Name: "A claim of another issuer is refused, whether its token is lower, equal or higher",
		Holds: otherIssuerIsRefused},
	{Name: "A deposed leader of one resource does not disturb another", Holds: resourcesAreApart},
	{
		Name:  "A task belongs to the resource under which it was published first",
		Holds: otherResourceIsRefused,
	},
}

// powerless fails the test unless the claim can neither take, publish at any version, nor forget.
func (k *stage) powerless(c fence.Claim, sentinel error, stored checkpoint.Checkpoint) {
	k.Helper()
	for _, j := range []checkpoint.Journal{k.Journal, k.Second} {
		for _, have := range []int64{-1, 0, stored.Version} {
			cp, same, err := k.tryTake(j, c, nightly, have)
			k.refused(err, sentinel)
			if same || cp.Version != 0 || len(cp.State) != 0 {
				k.Fatalf("take under %s was refused, and answered %+v, same is %v", c, cp, same)
			}
		}
		for _, n := range []int64{1, stored.Version, stored.Version + 1, stored.Version + 2} {
			if n > 0 {
				k.refused(k.try(j, c, version(n, c, nightly, "powerless")), sentinel)
			}
			k.stays(nightly, stored)
		}
		k.refused(k.tryForget(j, c, nightly), sentinel)
		k.stays(nightly, stored)
		k.refused(k.tryForget(j, c, "unheard-of"), sentinel)
		k.refused(k.try(j, c, version(1, c, "unheard-of", "powerless")), sentinel)
		k.stays("unheard-of", checkpoint.Checkpoint{})
	}
}

func deposedIsStale(k *stage) {
	old := k.lead(orders)
	k.powerful(old, checkpoint.Checkpoint{})
	landed := k.publish(old, version(2, old, nightly, "old"))
	fresh := k.lead(orders)
	if fresh.Token <= old.Token || fresh.Issuer != old.Issuer {
		k.Fatalf("the fixture led %+v after %+v", fresh, old)
	}
	k.powerless(old, fence.ErrStale, landed)
	k.powerful(fresh, landed)
}

// powerful fails the test unless the claim can take the stored checkpoint and publish the next one.
func (k *stage) powerful(c fence.Claim, stored checkpoint.Checkpoint) checkpoint.Checkpoint {
	k.Helper()
	if got := k.take(k.Second, c, nightly); got.Version != 0 || stored.Version != 0 {
		k.equal(got, stored)
	}
	next := version(stored.Version+1, c, nightly, "powerful")
	if err := k.try(k.Second, c, next); err != nil {
		k.Fatalf("publish under %s: %v", c, err)
	}
	k.stays(nightly, next)
	return next
}

func deposedBehindNewer(k *stage) {
	old := k.lead(orders)
	k.publish(old, version(1, old, nightly, "old"))
	fresh := k.lead(orders)
	landed := k.powerful(fresh, k.take(k.Journal, fresh, nightly))
	k.powerless(old, fence.ErrStale, landed)
	newest := k.lead(orders)
	k.powerless(old, fence.ErrStale, landed)
	k.powerless(fresh, fence.ErrStale, landed)
	k.powerful(newest, landed)
}

func deposedStaysDeposed(k *stage) {
	old := k.lead(orders)
	fresh := k.lead(orders)
	for _, j := range []checkpoint.Journal{k.Journal, k.Second} {
		err := k.patiently(func() error { return j.Raise(k.ctx, old) })
		if err != nil { // a journal in the coordinator accepts it, because it raises nothing
			k.refused(err, fence.ErrStale)
		}
		k.powerless(old, fence.ErrStale, checkpoint.Checkpoint{})
	}
	k.powerful(fresh, checkpoint.Checkpoint{})
}

func raiseAgain(k *stage) {
	c := k.lead(orders)
	var stored checkpoint.Checkpoint
	for _, j := range []checkpoint.Journal{k.Journal, k.Second, k.Journal} {
		if err := k.patiently(func() error { return j.Raise(k.ctx, c) }); err != nil {
			k.Fatalf("raise for %s: %v", c, err)
		}
		stored = k.powerful(c, stored)
	}
}

func unraisedIsRefused(k *stage) {
	nobody := k.lead(orders)
	nobody.Resource = stock // nobody has ever led it
	k.powerless(nobody, nil, checkpoint.Checkpoint{})
	c := k.lead(orders)
	landed := k.publish(c, version(1, c, nightly, "a"))
	for _, above := range []fence.Token{1, 2, 1 << 40} {
		ahead := c
		ahead.Token += above
		k.powerless(ahead, nil, landed)
	}
	k.powerful(c, landed)
}

func otherIssuerIsRefused(k *stage) {
	c := k.lead(orders)
	landed := k.publish(c, version(1, c, nightly, "a"))
	for _, by := range []fence.Token{-1, 0, 1} {
		stranger := c
		stranger.Issuer, stranger.Token = c.Issuer+"-rebuilt", c.Token+by
		k.powerless(stranger, nil, landed)
	}
	k.powerful(c, landed)
}

func resourcesAreApart(k *stage) {
	k.lead(orders)
	bystander := k.lead(stock)
	landed := k.powerful(bystander, checkpoint.Checkpoint{})
	k.lead(orders)
	k.powerful(bystander, landed)
}

func otherResourceIsRefused(k *stage) {
	owner := k.lead(orders)
	landed := k.publish(owner, version(1, owner, nightly, "owner"))
	stranger := k.lead(stock)
	for _, j := range []checkpoint.Journal{k.Journal, k.Second} {
		for _, have := range []int64{-1, 0, 1} {
			_, same, err := k.tryTake(j, stranger, nightly, have)
			k.answered(err, checkpoint.ErrOtherResource)
			if same {
				k.Fatal("another resource's leader got the answer that its copy is current")
			}
		}
		for _, n := range []int64{1, 2} {
			k.answered(k.try(j, stranger, version(n, stranger, nightly, "stranger")),
				checkpoint.ErrOtherResource)
			k.stays(nightly, landed)
		}
		// The checkpoint names the right resource, and the claim is to another one.
		for _, forged := range []checkpoint.Checkpoint{version(2, owner, nightly, "forged"),
			version(1, owner, hourly, "forged")} {
			if err := k.try(j, stranger, forged); err == nil {
				k.Fatalf("a checkpoint of %q was published under a claim to %q", orders, stock)
			}
		}
		k.stays(nightly, landed)
		k.stays(hourly, checkpoint.Checkpoint{})
	}
	k.powerful(owner, landed)
}
