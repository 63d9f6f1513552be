package storetest

import (
	"sync"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/store"
)

var raiseChecks = []check{
	{"Raise sets the mark and returns it as it was", raiseReturnsBefore},
	{"Raise never lowers the mark", raiseNeverLowers},
	{"Raise to the mark itself changes nothing", raiseMayBeRepeated},
	{"Of many raises at once the highest wins, and each is told the truth", concurrentRaises},
}

func raiseReturnsBefore(k *kit) {
	if before := k.raise(ofOrders(1)); before.Token != 0 {
		k.Errorf("before the first raise the mark was %+v", before)
	}
	k.met(k.raise(ofOrders(7)), ofOrders(1))
	k.met(k.mark(orders), ofOrders(7))
	if m := k.mark(stock); m.Token != 0 {
		k.Errorf("another resource was raised too: %+v", m)
	}
}

func raiseNeverLowers(k *kit) {
	k.raise(ofOrders(5))
	before, err := k.Store.Raise(k.ctx, ofOrders(4))
	k.refused(err, fence.ErrStale)
	k.met(before, ofOrders(5))
	k.met(k.mark(orders), ofOrders(5))
}

func raiseMayBeRepeated(k *kit) {
	k.raise(ofOrders(5))
	before := k.mark(orders)
	again := ofOrders(5)
	again.Holder = "somebody else"
	k.met(k.raise(again), ofOrders(5))
	if after := k.mark(orders); !after.Raised.Equal(before.Raised) || after.Token != before.Token {
		k.Errorf("the mark was %+v and became %+v", before, after)
	}
	if !k.mark(orders).Confirmed {
		k.Error("the mark is not confirmed after a raise")
	}
	c := k.connect()
	k.admit(c, ofOrders(5))
	k.raise(ofOrders(5))
	k.works(c)
	k.expect(store.Admitted, k.connect(), ofOrders(5))
}

func concurrentRaises(k *kit) {
	const raisers, raises = 8, 10
	var all sync.WaitGroup
	for g := range raisers {
		all.Go(func() {
			for i := range raises {
				k.raiseAmongOthers(ofOrders(1 + g + i*raisers))
			}
		})
	}
	all.Wait()
	k.met(k.mark(orders), ofOrders(raisers*raises))
}

// raiseAmongOthers runs in its own goroutine: a raise either succeeds over a lower mark, or is stale under a higher
// one, and the mark is at least the claim afterwards.
func (k *kit) raiseAmongOthers(c fence.Claim) {
	before, err := k.Store.Raise(k.ctx, c)
	switch {
	case err == nil && before.Token >= c.Token:
		k.Errorf("raise to %s succeeded over the mark %s", c, before.Token)
	case err != nil && before.Token <= c.Token:
		k.Errorf("raise to %s over the mark %s failed: %v", c, before.Token, err)
	}
	marks, err := k.Store.Marks(k.ctx, c.Resource)
	if err != nil || len(marks) != 1 || marks[0].Token < c.Token {
		k.Errorf("after a raise to %s the marks are %+v (%v)", c, marks, err)
	}
}
