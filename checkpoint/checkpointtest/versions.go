package checkpointtest

import (
	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/test/contract"
)

var versionClauses = []contract.Clause[*stage]{
	{Name: "A task that was never published has version 0", Holds: nothingIsVersionZero},
	{Name: "A copy is current if and only if it has the stored version", Holds: sameOnlyWhenSame},
	{Name: "A publish lands only on the version before it", Holds: versionsFollowEachOther},
	{Name: "A repeated publish is a conflict and changes nothing", Holds: repeatsConflict},
	{Name: "Tasks have versions of their own", Holds: tasksAreApart},
}

func nothingIsVersionZero(k *stage) {
	c := k.lead(orders)
	k.takesNothing(k.Journal, c, nightly, 0, 3)
	k.stays(nightly, checkpoint.Checkpoint{})
	if all := k.load(k.Journal); len(all) != 0 {
		k.Errorf("an empty journal has %+v", all)
	}
}

// takesNothing fails the test unless nothing is stored for a task, whatever version one has.
func (k *stage) takesNothing(
	j checkpoint.Journal, c fence.Claim, task checkpoint.Name, haves ...int64,
) {
	k.Helper()
	for _, have := range haves {
		cp, same, err := k.tryTake(j, c, task, have)
		if err != nil || cp.Version != 0 || same && have != 0 {
			k.Errorf("take of nothing, having %d: version %d, same is %v, %v", have, cp.Version, same, err)
		}
	}
}

func sameOnlyWhenSame(k *stage) {
	c := k.lead(orders)
	for n := range int64(3) {
		want := k.publish(c, version(n+1, c, nightly, "a"))
		for have := range int64(6) { // one may have a newer one: of a journal that was set back
			cp, same, err := k.tryTake(k.Second, c, nightly, have)
			if err != nil || same != (have == n+1) {
				k.Fatalf("version %d is stored: take, having %d: same is %v, %v", n+1, have, same, err)
			}
			if !same {
				k.equal(cp, want)
			}
		}
	}
}

func versionsFollowEachOther(k *stage) {
	c := k.lead(orders)
	var stored checkpoint.Checkpoint
	for n := range int64(4) {
		for _, wrong := range []int64{n - 1, n, n + 2, n + 3, n + 1000} {
			err := k.try(k.Second, c, version(wrong, c, nightly, "wrong"))
			if wrong > 0 {
				k.answered(err, checkpoint.ErrConflict)
			} else if err == nil {
				k.Fatalf("version %d was published", wrong)
			}
			k.stays(nightly, stored)
		}
		stored = k.publish(c, version(n+1, c, nightly, "right"))
		k.stays(nightly, stored)
	}
}

func repeatsConflict(k *stage) {
	c := k.lead(orders)
	for n := range int64(3) {
		landed := k.publish(c, version(n+1, c, nightly, "a"))
		for _, again := range []checkpoint.Checkpoint{landed, version(n+1, c, nightly, "b")} {
			k.answered(k.try(k.Journal, c, again), checkpoint.ErrConflict)
			k.answered(k.try(k.Second, c, again), checkpoint.ErrConflict)
			k.stays(nightly, landed)
		}
	}
}

func tasksAreApart(k *stage) {
	c, other := k.lead(orders), k.lead(stock)
	names := []checkpoint.Name{"a", "A", "aa", "a.b", "a:b", "a-b", "a_b", "a.b.c", "1"}
	for i, name := range names {
		for n := range int64(i%3 + 1) {
			if i%2 == 0 {
				k.publish(c, version(n+1, c, name, string(name)))
			} else {
				k.publish(other, version(n+1, other, name, string(name)))
			}
		}
	}
	for i, name := range names {
		holder := c
		if i%2 == 1 {
			holder = other
		}
		want := version(int64(i%3+1), holder, name, string(name))
		k.equal(k.take(k.Journal, holder, name), want)
		k.stays(name, want)
	}
	if all := k.load(k.Second); len(all) != len(names) {
		k.Errorf("%d tasks are stored, want %d", len(all), len(names))
	}
}
