package markstest

import (
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
)

// by returns a claim of a candidate.
func by(candidate string, c fence.Claim) fence.Claim {
	c.Candidate = candidate
	return c
}

// markOfCandidate: a coordinator that was restored gives the mark's number to somebody else.
func markOfCandidate(k *stage) {
	own, other := by("own", ofOrders(5)), by("other", ofOrders(5))
	c := k.admitted(own)
	if m := k.mark(orders); m.Candidate != "own" {
		k.Errorf("the mark is %+v", m)
	}
	k.raise(ofOrders(5)) // by somebody who knows only the number
	k.expect(marks.Admitted, k.connect(), own)
	k.expect(marks.Admitted, k.connect(), ofOrders(5))

	k.expect(marks.MustRaise, k.connect(), other)
	// nobody has asked a coordinator
	_, err := k.Store.Raise(k.ctx, marks.SessionID{}, other, agreed(other))
	k.refused(err, fence.ErrOtherIssuer)
	k.expect(marks.Admitted, k.connect(), own)
	_, err = k.Store.Raise(k.ctx, marks.SessionID{}, other, leads(other))
	k.refused(err, fence.ErrOtherIssuer)
	k.wantRolledBack(own, other, ofOrders(5), by("third", ofOrders(6)))
	k.works(c) // nobody newer is admitted

	k.adopt(fence.Claim{Resource: orders, Issuer: elsewhere}, "alice")
	k.works(k.admitted(by("other", from(elsewhere, ofOrders(5)))))
}

// rolledBackForGood: each try of a leader counts up, and would be above the mark at last.
func rolledBackForGood(k *stage) {
	k.admitted(ofOrders(5))
	before, err := k.Store.Raise(k.ctx, marks.SessionID{}, ofOrders(3), leads(ofOrders(3)))
	k.refused(err, fence.ErrOtherIssuer)
	k.wantMark(before, ofOrders(5))
	k.wantRolledBack(ofOrders(3), ofOrders(4), ofOrders(5), ofOrders(6), by("new", ofOrders(7)))
	k.works(k.admitted(ofStock(1))) // another resource

	k.adopt(fence.Claim{Resource: orders, Issuer: here}, "alice")
	if k.mark(orders).RolledBack {
		k.Error("the adoption has not ended it")
	}
	k.works(k.admitted(ofOrders(3)))
}

// wantRolledBack checks that none of these claims is admitted or raises the mark, also after a
// restart.
func (k *stage) wantRolledBack(claims ...fence.Claim) {
	k.Helper()
	mark := k.mark(orders)
	if !mark.RolledBack {
		k.Errorf("the mark is %+v", mark)
	}
	for range 2 {
		for _, c := range claims {
			_, err := k.Store.Register(k.ctx, k.connect().Session(), []fence.Claim{c})
			k.refused(err, fence.ErrOtherIssuer)
			_, err = k.Store.Raise(k.ctx, marks.SessionID{}, c, leads(c))
			k.refused(err, fence.ErrOtherIssuer)
		}
		if now := k.mark(orders); now.Token != mark.Token || !now.RolledBack {
			k.Errorf("the mark is %+v, and was %+v", now, mark)
		}
	}
}
