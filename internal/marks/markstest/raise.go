package markstest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/test/contract"
)

var raiseClauses = []contract.Clause[*stage]{
	{Name: "Raise sets the mark and returns the one before", Holds: raiseReturnsBefore},
	{Name: "Raise never lowers the mark", Holds: raiseNeverLowers},
	{Name: "Raise to the mark itself changes nothing", Holds: raiseMayBeRepeated},
	{Name: "A raise confirms over the current mark, and again when the mark has changed meanwhile",
		Holds: raiseConfirmsAgain},
	{Name: "A raise whose confirmation fails raises nothing", Holds: raiseNeedsConfirmation},
	{
		Name:  "A confirmation given before a restart does not count after a restart",
		Holds: raiseBeforeRestart,
	},
	{Name: "Of many concurrent raises the highest wins, and each returns what happened",
		Holds: concurrentRaises},
}

func raiseReturnsBefore(k *stage) {
	if before := k.raise(ofOrders(1)); before.Token != 0 {
		k.Errorf("before the first raise the mark was %+v", before)
	}
	k.wantMark(k.raise(ofOrders(7)), ofOrders(1))
	k.wantMark(k.mark(orders), ofOrders(7))
	if m := k.mark(stock); m.Token != 0 {
		k.Errorf("the mark of another resource was raised too: %+v", m)
	}
}

func raiseNeverLowers(k *stage) {
	k.raise(ofOrders(5))
	before, err := k.Store.Raise(k.ctx, marks.SessionID{}, ofOrders(4), leads(ofOrders(4)))
	k.refused(err, fence.ErrOtherIssuer)
	k.wantMark(before, ofOrders(5))
	k.wantMark(k.mark(orders), ofOrders(5))
}

func raiseMayBeRepeated(k *stage) {
	k.raise(ofOrders(5))
	before := k.mark(orders)
	again := ofOrders(5)
	again.Holder = "somebody else"
	k.wantMark(k.raise(again), ofOrders(5))
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
	k.expect(marks.Admitted, k.connect(), ofOrders(5))
}

func raiseConfirmsAgain(k *stage) {
	k.raise(ofOrders(1))
	var seen []fence.Token
	confirm := func(_ context.Context, m marks.Mark) (fence.Claim, error) {
		if seen = append(seen, m.Token); len(seen) == 1 {
			k.raise(ofOrders(3))
		}
		return ofOrders(5), nil
	}
	_, err := k.Store.Raise(k.ctx, marks.SessionID{}, ofOrders(5), confirm)
	if err != nil ||
		fmt.Sprint(seen) != fmt.Sprint([]fence.Token{ofOrders(1).Token, ofOrders(3).Token}) {
		k.Errorf("confirmed over the marks %v: %v", seen, err)
	}
	k.wantMark(k.mark(orders), ofOrders(5))

	once := sync.OnceFunc(func() { k.raise(ofOrders(7)) })
	confirm = func(ctx context.Context, m marks.Mark) (fence.Claim, error) {
		once()
		return agreed(ofOrders(6))(ctx, m)
	}
	_, err = k.Store.Raise(k.ctx, marks.SessionID{}, ofOrders(6), confirm)
	k.refused(err, fence.ErrStale)
}

func raiseNeedsConfirmation(k *stage) {
	no := errors.New("no")
	confirm := func(context.Context, marks.Mark) (fence.Claim, error) { return ofOrders(5), no }
	_, err := k.Store.Raise(k.ctx, marks.SessionID{}, ofOrders(5), confirm)
	if !errors.Is(err, no) {
		k.Errorf("got %v", err)
	}
	if m := k.mark(orders); m.Token != 0 {
		k.Errorf("the mark was raised: %+v", m)
	}
}

// raiseBeforeRestart delays a confirmed raise in the network until the server has been restarted. A
// newer leader might have raised the mark meanwhile, and the restart might have lost that mark.
// Here nothing is lost; the test requires that the raise confirms again, which keeps it out.
func raiseBeforeRestart(k *stage) {
	k.raise(ofOrders(1))
	confirmations, deposed := 0, errors.New("deposed meanwhile")
	confirm := func(context.Context, marks.Mark) (fence.Claim, error) {
		if confirmations++; confirmations > 1 {
			return ofOrders(5), deposed
		}
		k.restarted()
		return ofOrders(5), nil
	}
	_, err := k.Store.Raise(k.ctx, marks.SessionID{}, ofOrders(5), confirm)
	if !errors.Is(err, deposed) {
		k.Errorf("confirmed %d times: %v", confirmations, err)
	}
	if m := k.mark(orders); m.Confirmed || m.Token != ofOrders(1).Token {
		k.Errorf("the mark is %+v", m)
	}
}

func concurrentRaises(k *stage) {
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
	k.wantMark(k.mark(orders), ofOrders(raisers*raises))
}

// raiseAmongOthers raises in its own goroutine. A raise either succeeds over a lower mark, or is
// stale under a higher one. Afterwards the mark is at least the claim.
func (k *stage) raiseAmongOthers(c fence.Claim) {
	before, err := k.Store.Raise(k.ctx, marks.SessionID{}, c, agreed(c))
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
