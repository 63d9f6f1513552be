package markstest

import (
	"slices"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/test/contract"
)

var issuerClauses = []contract.Clause[*stage]{
	{Name: "A token of another issuer is refused everywhere, whether lower, equal or higher",
		Holds: otherIssuerIsRefused},
	{Name: "Adopt admits the new issuer, even with a lower token, and refuses the old one",
		Holds: adoptAdmitsNewIssuer},
	{Name: "Adopt ends every session of the resource, and no other", Holds: adoptEnds},
	{
		Name:  "Adopt without a token lets the new issuer's first token raise the mark",
		Holds: adoptWithoutToken,
	},
	{Name: "Adopt is audited, each time", Holds: adoptIsAudited},
	{Name: "A mark belongs to a candidate, and not only to a number", Holds: markOfCandidate},
	{
		Name:  "A coordinator that was rolled back is refused for good, until Adopt",
		Holds: rolledBackForGood,
	},
}

// from returns a claim with this issuer.
func from(is fence.Issuer, c fence.Claim) fence.Claim {
	c.Issuer = is
	return c
}

func (k *stage) adopt(c fence.Claim, by string) marks.Mark {
	k.Helper()
	before, err := k.Admin.Adopt(k.ctx, c, by)
	if err != nil {
		k.Fatalf("adopt %+v: %v", c, err)
	}
	return before
}

func otherIssuerIsRefused(k *stage) {
	c := k.admitted(ofOrders(5))
	for _, n := range []int{4, 5, 6} {
		claim := from(elsewhere, ofOrders(n))
		st, err := k.Store.Register(k.ctx, k.connect().Session(), []fence.Claim{claim})
		k.refused(err, fence.ErrOtherIssuer)
		k.wantMark(st.Mark, ofOrders(5))
		_, err = k.Store.Raise(k.ctx, marks.SessionID{}, claim, agreed(claim))
		k.refused(err, fence.ErrOtherIssuer)
		_, err = k.Store.Revoke(k.ctx, marks.SessionID{}, claim)
		k.refused(err, fence.ErrOtherIssuer)
	}
	k.wantMark(k.mark(orders), ofOrders(5))
	k.works(c)
}

func adoptAdmitsNewIssuer(k *stage) {
	k.admitted(ofOrders(5))
	lower := from(elsewhere, ofOrders(2))
	k.wantMark(k.adopt(lower, "alice"), ofOrders(5))
	k.wantMark(k.mark(orders), lower)
	k.works(k.admitted(lower))
	for _, n := range []int{1, 2, 9} {
		_, err := k.Store.Register(k.ctx, k.connect().Session(), []fence.Claim{ofOrders(n)})
		k.refused(err, fence.ErrOtherIssuer)
	}
	_, err := k.Store.Register(k.ctx, k.connect().Session(),
		[]fence.Claim{from(elsewhere, ofOrders(1))})
	k.refused(err, fence.ErrStale)
}

func adoptEnds(k *stage) {
	same := from(elsewhere, ofOrders(5)) // the same number under another issuer is another token
	old, bystander := k.admitted(ofOrders(5)), k.admitted(ofStock(1))
	left := k.admitted(ofOrders(5))
	k.leave(left, "left open over an adoption")
	k.adopt(same, "alice")
	k.ended(old)
	k.works(bystander)
	fresh := k.admitted(same)
	k.works(fresh)
	k.ended(old)
	if slices.Contains(k.Written(k.TB), "left open over an adoption") {
		k.Error("an open transaction was committed after the adoption")
	}
}

func adoptWithoutToken(k *stage) {
	k.admitted(ofOrders(5))
	k.adopt(fence.Claim{Resource: orders, Issuer: elsewhere}, "alice")
	_, err := k.Store.Register(k.ctx, k.connect().Session(), []fence.Claim{ofOrders(6)})
	k.refused(err, fence.ErrOtherIssuer)
	st := k.expect(marks.MustRaise, k.connect(), from(elsewhere, ofOrders(1)))
	if st.Mark.Token != 0 || !st.Mark.Confirmed {
		k.Errorf("after an adoption without a token the mark is %+v", st.Mark)
	}
	k.works(k.admitted(from(elsewhere, ofOrders(1))))
}

func adoptIsAudited(k *stage) {
	k.raise(ofOrders(5))
	k.adopt(from(elsewhere, ofOrders(2)), "alice")
	k.adopt(ofOrders(3), "bob")
	want := []Adoption{
		{By: "alice", Before: ofOrders(5).Token, After: ofOrders(2).Token,
			From: here, To: elsewhere},
		{By: "bob", Before: ofOrders(2).Token, After: ofOrders(3).Token, From: elsewhere, To: here},
	}
	if got := k.Audit(k.TB, orders); !slices.Equal(got, want) {
		k.Errorf("the audit says %+v, want %+v", got, want)
	}
	if got := k.Audit(k.TB, stock); len(got) != 0 {
		k.Errorf("the audit of another resource says %+v", got)
	}
}
