package markstest

import (
	"errors"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/test/contract"
)

var registerClauses = []contract.Clause[*stage]{
	{
		Name:  "The first claim has to raise the mark, which is confirmed and zero",
		Holds: firstClaimRaises,
	},
	{
		Name:  "A claim above the mark has to raise it, and gets the mark that it meets",
		Holds: higherClaimRaises,
	},
	{Name: "A claim equal to the mark is admitted, again and again", Holds: equalClaimIsAdmitted},
	{
		Name:  "A claim below the mark is stale, and gets the mark that it meets",
		Holds: lowerClaimIsStale,
	},
	{Name: "A stale claim is refused between raise and revoke", Holds: lowerClaimIsStaleBeforeRevoke},
	{Name: "Sessions under an older token have to be revoked before anybody is admitted",
		Holds: othersMustBeRevoked},
	{
		Name:  "A Register that returns another step than admitted records nothing",
		Holds: nothingIsRecorded,
	},
	{
		Name: "Tokens above 2^53 that differ in the last digit are distinguished", Holds: lastDigitCounts,
	},
	{Name: "Tokens with more digits are higher", Holds: moreDigitsAreHigher},
	{
		Name:  "A session of another run of the server, or of another server, is refused",
		Holds: otherRunIsRefused,
	},
}

func firstClaimRaises(k *stage) {
	st := k.expect(marks.MustRaise, k.connect(), ofOrders(1))
	if st.Claim != ofOrders(1) {
		k.Errorf("the answer is about %+v", st.Claim)
	}
	if st.Mark.Resource != orders || st.Mark.Token != 0 || !st.Mark.Confirmed {
		k.Errorf("the mark that was never raised is %+v", st.Mark)
	}
	k.raise(ofOrders(1))
	k.expect(marks.Admitted, k.connect(), ofOrders(1))
}

func higherClaimRaises(k *stage) {
	k.admitted(ofOrders(1))
	st := k.expect(marks.MustRaise, k.connect(), ofOrders(2))
	k.wantMark(st.Mark, ofOrders(1))
	if !st.Mark.Confirmed {
		k.Errorf("the mark is not confirmed: %+v", st.Mark)
	}
}

func equalClaimIsAdmitted(k *stage) {
	c := k.admitted(ofOrders(1))
	k.expect(marks.Admitted, c, ofOrders(1))
	for range 3 {
		k.expect(marks.Admitted, k.connect(), ofOrders(1))
	}
	if n := k.recorded(orders); n != 4 {
		k.Errorf("%d sessions are recorded, want 4", n)
	}
	k.works(c)
}

func lowerClaimIsStale(k *stage) {
	k.admitted(ofOrders(5))
	st, err := k.Store.Register(k.ctx, k.connect().Session(), []fence.Claim{ofOrders(4)})
	k.refused(err, fence.ErrStale)
	k.wantMark(st.Mark, ofOrders(5))
}

func lowerClaimIsStaleBeforeRevoke(k *stage) {
	old := k.admitted(ofOrders(1))
	k.raise(ofOrders(2))
	_, err := k.Store.Register(k.ctx, k.connect().Session(), []fence.Claim{ofOrders(1)})
	k.refused(err, fence.ErrStale)
	_, err = k.Store.Register(k.ctx, old.Session(), []fence.Claim{ofOrders(1)})
	k.refused(err, fence.ErrStale)
}

func othersMustBeRevoked(k *stage) {
	old := k.admitted(ofOrders(1))
	k.raise(ofOrders(2))
	fresh := k.connect()
	k.expect(marks.MustRevoke, fresh, ofOrders(2))
	k.expect(marks.MustRevoke, fresh, ofOrders(2))
	k.works(old) // the older session lives until it is revoked
	k.revoke(ofOrders(2))
	k.expect(marks.Admitted, fresh, ofOrders(2))
	k.ended(old)
}

func nothingIsRecorded(k *stage) {
	old := k.admitted(ofOrders(1))
	fresh := k.connect()
	k.expect(marks.MustRaise, fresh, ofOrders(2))
	k.raise(ofOrders(2))
	k.expect(marks.MustRevoke, fresh, ofOrders(2))
	if n := k.recorded(orders); n != 1 {
		k.Fatalf("%d sessions are recorded, want the old one only", n)
	}
	k.raise(ofOrders(3))
	if n := k.revoke(ofOrders(3)); n != 1 {
		k.Errorf("%d sessions were ended, want the old one only", n)
	}
	k.ended(old)
	k.works(fresh)
}

func lastDigitCounts(k *stage) {
	// As floats these two are one number.
	c := k.admitted(ofOrders(2))
	_, err := k.Store.Register(k.ctx, k.connect().Session(), []fence.Claim{ofOrders(1)})
	k.refused(err, fence.ErrStale)
	k.works(c)
	k.expect(marks.MustRaise, k.connect(), ofOrders(3))
	top := fence.Claim{Resource: orders, Token: 1<<63 - 2, Issuer: here}
	k.admit(k.connect(), top)
	top.Token++
	k.expect(marks.MustRaise, k.connect(), top)
	k.admit(k.connect(), top)
	k.wantMark(k.mark(orders), top)
}

func moreDigitsAreHigher(k *stage) {
	for _, token := range []fence.Token{9, 10, 99, 100} { // as text, 9 is the highest
		c := fence.Claim{Resource: orders, Token: token, Issuer: here}
		k.admit(k.connect(), c)
		k.wantMark(k.mark(orders), c)
	}
}

func otherRunIsRefused(k *stage) {
	k.raise(ofOrders(1))
	s := k.connect().Session()
	s.Run += "0"
	_, err := k.Store.Register(k.ctx, s, []fence.Claim{ofOrders(1)})
	var setup *fence.SetupError
	if !errors.As(err, &setup) {
		k.Errorf("got %v, want a *fence.SetupError", err)
	}
	if n := k.recorded(orders); n != 0 {
		k.Errorf("%d sessions are recorded", n)
	}
}

// wantMark fails the test unless the mark is that of the claim.
func (k *stage) wantMark(m marks.Mark, c fence.Claim) {
	k.Helper()
	if m.Resource != c.Resource || m.Token != c.Token || m.Issuer != c.Issuer ||
		m.Holder != c.Holder {
		k.Errorf("the mark is %+v, want that of %+v", m, c)
	}
	if m.Raised.IsZero() {
		k.Errorf("the mark %+v has no time", m)
	}
}
