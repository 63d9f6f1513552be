package markstest

import (
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/test/contract"
)

var severalClauses = []contract.Clause[*stage]{
	{Name: "Several claims are admitted together", Holds: severalAreAdmitted},
	{
		Name:  "One stale claim among several refuses all, and nothing is raised",
		Holds: staleAmongSeveral,
	},
	{Name: "One claim of another issuer among several refuses all", Holds: foreignAmongSeveral},
	{
		Name:  "A session under several claims ends when one of them becomes stale",
		Holds: severalEndTogether,
	},
	{
		Name:  "Older sessions of one resource keep a newcomer out of all its resources",
		Holds: severalWaitForOne,
	},
}

func severalAreAdmitted(k *stage) {
	c := k.connect()
	st := k.expect(marks.MustRaise, c, ofOrders(1), ofStock(8))
	k.raise(st.Claim)
	next := k.expect(marks.MustRaise, c, ofOrders(1), ofStock(8))
	if next.Claim.Resource == st.Claim.Resource {
		k.Fatalf("%s is raised and has to be raised again", st.Claim)
	}
	k.raise(next.Claim)
	k.expect(marks.Admitted, c, ofOrders(1), ofStock(8))
	if o, s := k.recorded(orders), k.recorded(stock); o != 1 || s != 1 {
		k.Errorf("recorded %d and %d sessions, want 1 each", o, s)
	}
}

func staleAmongSeveral(k *stage) {
	k.admitted(ofStock(5))
	for _, claims := range [][]fence.Claim{{ofOrders(1), ofStock(4)}, {ofStock(4), ofOrders(1)}} {
		st, err := k.Store.Register(k.ctx, k.connect().Session(), claims)
		k.refused(err, fence.ErrStale)
		k.wantMark(st.Mark, ofStock(5))
	}
	if m := k.mark(orders); m.Token != 0 {
		k.Errorf("the mark of the other claim was raised: %+v", m)
	}
	if n := k.recorded(orders) + k.recorded(stock); n != 1 {
		k.Errorf("%d sessions are recorded, want 1", n)
	}
}

func foreignAmongSeveral(k *stage) {
	k.raise(from(elsewhere, ofStock(1)))
	for _, claims := range [][]fence.Claim{{ofOrders(1), ofStock(4)}, {ofStock(4), ofOrders(1)}} {
		_, err := k.Store.Register(k.ctx, k.connect().Session(), claims)
		k.refused(err, fence.ErrOtherIssuer)
	}
	if m := k.mark(orders); m.Token != 0 {
		k.Errorf("the mark of the other claim was raised: %+v", m)
	}
}

func severalEndTogether(k *stage) {
	both := k.admitted(ofOrders(1), ofStock(1))
	bystander := k.admitted(ofOrders(1))
	k.admitted(ofStock(2))
	k.ended(both)
	k.works(bystander)
}

func severalWaitForOne(k *stage) {
	old := k.admitted(ofStock(1))
	k.raise(ofOrders(1))
	k.raise(ofStock(2))
	c := k.connect()
	st := k.expect(marks.MustRevoke, c, ofOrders(1), ofStock(2))
	if st.Claim != ofStock(2) {
		k.Errorf("the step is to revoke for %+v", st.Claim)
	}
	if n := k.recorded(orders); n != 0 {
		k.Errorf("a session of %s is recorded before it is admitted", orders)
	}
	k.admit(c, ofOrders(1), ofStock(2))
	k.ended(old)
	k.works(c)
}
