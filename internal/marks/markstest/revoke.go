package markstest

import (
	"slices"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/test/contract"
)

var revokeClauses = []contract.Clause[*stage]{
	{Name: "Revoke ends real sessions and returns when they have ended", Holds: revokeEnds},
	{Name: "The open transaction of an ended session leaves nothing", Holds: revokeRollsBack},
	{
		Name: "Revoke for a token that is no longer the mark ends nothing", Holds: staleRevokeEndsNothing,
	},
	{Name: "Revoke for a token that is not the mark yet ends nothing", Holds: earlyRevokeEndsNothing},
	{Name: "Revoke leaves the sessions of other resources alone", Holds: revokeSparesOthers},
	{Name: "Revoke spares the sessions under the claim, however often it is repeated",
		Holds: revokeMayBeRepeated},
	{
		Name:  "Revoke drops the records of sessions that have ended by themselves",
		Holds: revokeForgetsGone,
	},
	{Name: "A session that has ended before it is registered keeps nobody out",
		Holds: registerOfEndedIsHarmless},
}

func (k *stage) leave(c Conn, value string) {
	k.Helper()
	if err := c.Leave(k.ctx, value); err != nil {
		k.Fatalf("leave a transaction open: %v", err)
	}
}

func revokeEnds(k *stage) {
	old := []Conn{k.admitted(ofOrders(1)), k.admitted(ofOrders(1)), k.admitted(ofOrders(1))}
	stranger := k.connect()
	k.raise(ofOrders(2))
	if n := k.revoke(ofOrders(2)); n != len(old) {
		k.Errorf("%d sessions were ended, want %d", n, len(old))
	}
	for _, c := range old {
		k.ended(c)
	}
	k.works(stranger) // it is not registered, so Revoke must not end it
	if n := k.recorded(orders); n != 0 {
		k.Errorf("%d sessions are still recorded", n)
	}
}

func revokeRollsBack(k *stage) {
	const value = "left open by an older leader"
	k.leave(k.admitted(ofOrders(1)), value)
	k.works(k.admitted(ofOrders(2)))
	if slices.Contains(k.Written(k.TB), value) {
		k.Error("the open transaction of an ended session was committed")
	}
}

func staleRevokeEndsNothing(k *stage) {
	k.raise(ofOrders(1))
	c := k.admitted(ofOrders(2))
	n, err := k.Store.Revoke(k.ctx, marks.SessionID{}, ofOrders(1))
	k.refused(err, fence.ErrStale)
	if n != 0 {
		k.Errorf("%d sessions were ended", n)
	}
	k.works(c)
}

func earlyRevokeEndsNothing(k *stage) {
	c := k.admitted(ofOrders(1))
	if n, _ := k.Store.Revoke(k.ctx, marks.SessionID{}, ofOrders(2)); n != 0 {
		k.Errorf("%d sessions were ended", n)
	}
	k.works(c)
}

func revokeSparesOthers(k *stage) {
	old, other := k.admitted(ofOrders(1)), k.admitted(ofStock(1))
	k.raise(ofOrders(9))
	k.revoke(ofOrders(9))
	k.ended(old)
	k.works(other)
}

func revokeMayBeRepeated(k *stage) {
	k.admitted(ofOrders(1))
	c := k.admitted(ofOrders(2))
	for range 3 {
		if n := k.revoke(ofOrders(2)); n != 0 {
			k.Errorf("%d sessions were ended", n)
		}
	}
	k.works(c)
	if n := k.recorded(orders); n != 1 {
		k.Errorf("%d sessions are recorded, want 1", n)
	}
}

func revokeForgetsGone(k *stage) {
	gone := k.admitted(ofOrders(1))
	gone.Close()
	c := k.admitted(ofOrders(2))
	k.works(c)
	if n := k.recorded(orders); n != 1 {
		k.Errorf("%d sessions are recorded, want 1", n)
	}
}

// registerOfEndedIsHarmless is a guard that pauses between the client's login and Register, while
// somebody ends the session. It may be recorded or not, and the next leader is admitted either way.
func registerOfEndedIsHarmless(k *stage) {
	k.raise(ofOrders(1))
	dead := k.connect()
	dead.Close()
	_, _ = k.Store.Register(k.ctx, dead.Session(), []fence.Claim{ofOrders(1)})
	k.works(k.admitted(ofOrders(2)))
}
