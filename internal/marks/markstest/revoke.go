package markstest

import (
	"slices"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
)

var revokeChecks = []check{
	{"Revoke ends real sessions and returns when they have ended", revokeEnds},
	{"The open transaction of an ended session leaves nothing", revokeRollsBack},
	{"Revoke for a token that is no longer the mark ends nothing", staleRevokeEndsNothing},
	{"Revoke for a token that is not the mark yet ends nothing", earlyRevokeEndsNothing},
	{"Revoke leaves the sessions of other resources alone", revokeSparesOthers},
	{"Revoke spares the sessions under the claim, however often it is repeated",
		revokeMayBeRepeated},
	{"Revoke drops the records of sessions that have ended by themselves", revokeForgetsGone},
	{"A session that has ended before it is registered keeps nobody out",
		registerOfEndedIsHarmless},
}

func (k *kit) leave(c Conn, value string) {
	k.Helper()
	if err := c.Leave(k.ctx, value); err != nil {
		k.Fatalf("leave a transaction open: %v", err)
	}
}

func revokeEnds(k *kit) {
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

func revokeRollsBack(k *kit) {
	const value = "left open by an older leader"
	k.leave(k.admitted(ofOrders(1)), value)
	k.works(k.admitted(ofOrders(2)))
	if slices.Contains(k.Written(k.TB), value) {
		k.Error("the open transaction of an ended session was committed")
	}
}

func staleRevokeEndsNothing(k *kit) {
	k.raise(ofOrders(1))
	c := k.admitted(ofOrders(2))
	n, err := k.Store.Revoke(k.ctx, marks.Session{}, ofOrders(1))
	k.refused(err, fence.ErrStale)
	if n != 0 {
		k.Errorf("%d sessions were ended", n)
	}
	k.works(c)
}

func earlyRevokeEndsNothing(k *kit) {
	c := k.admitted(ofOrders(1))
	if n, _ := k.Store.Revoke(k.ctx, marks.Session{}, ofOrders(2)); n != 0 {
		k.Errorf("%d sessions were ended", n)
	}
	k.works(c)
}

func revokeSparesOthers(k *kit) {
	old, other := k.admitted(ofOrders(1)), k.admitted(ofStock(1))
	k.raise(ofOrders(9))
	k.revoke(ofOrders(9))
	k.ended(old)
	k.works(other)
}

func revokeMayBeRepeated(k *kit) {
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

func revokeForgetsGone(k *kit) {
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
func registerOfEndedIsHarmless(k *kit) {
	k.raise(ofOrders(1))
	dead := k.connect()
	dead.Close()
	_, _ = k.Store.Register(k.ctx, dead.Session(), []fence.Claim{ofOrders(1)})
	k.works(k.admitted(ofOrders(2)))
}
