package markstest

import "github.com/ringfence/ringfence/internal/test/contract"

import "github.com/ringfence/ringfence/fence"

var releaseClauses = []contract.Clause[*stage]{
	{Name: "Release keeps the record of a session that still lives, so that a later revoke ends it",
		Holds: releaseKeepsLive},
	{
		Name:  "Release drops the record of an ended session, under all its claims",
		Holds: releaseForgetsGone,
	},
	{
		Name:  "Release of several sessions keeps the records of those that still live",
		Holds: releaseOfSeveral,
	},
	{Name: "Releasing a session twice, or one that was never registered, is no error",
		Holds: releaseMayBeRepeated},
}

func releaseKeepsLive(k *stage) {
	c := k.admitted(ofOrders(1))
	k.release(c)
	if n := k.recorded(orders); n != 1 {
		k.Fatalf("the record of a live session was dropped")
	}
	k.works(c)
	k.admitted(ofOrders(2))
	k.ended(c)
}

func releaseForgetsGone(k *stage) {
	c, stays := k.admitted(ofOrders(1), ofStock(1)), k.admitted(ofOrders(1))
	c.Close()
	k.release(c)
	if o, s := k.recorded(orders), k.recorded(stock); o != 1 || s != 0 {
		k.Errorf("recorded %d and %d sessions, want 1 and 0", o, s)
	}
	k.works(stays)
}

func releaseOfSeveral(k *stage) {
	gone, lives := k.admitted(ofOrders(1)), k.admitted(ofOrders(1))
	both, stays := k.admitted(ofOrders(1), ofStock(1)), k.admitted(ofStock(1))
	gone.Close()
	both.Close()
	k.release(gone, lives, both, stays, gone)
	if o, s := k.recorded(orders), k.recorded(stock); o != 1 || s != 1 {
		k.Errorf("recorded %d and %d sessions, want 1 and 1", o, s)
	}
	k.admitted(ofOrders(2), ofStock(2))
	k.ended(lives)
	k.ended(stays)
}

func releaseMayBeRepeated(k *stage) {
	k.release(k.connect())
	c := k.admitted(ofOrders(1))
	c.Close()
	k.release(c)
	k.release(c)
	if m := k.mark(orders); m.Token != ofOrders(1).Token {
		k.Errorf("release changed the mark: %+v", m)
	}
}

var marksClauses = []contract.Clause[*stage]{
	{Name: "Marks lists all marks or the named ones, by resource, and none that was never raised",
		Holds: marksLists},
}

func marksLists(k *stage) {
	if marks, err := k.Store.Marks(k.ctx); err != nil || len(marks) != 0 {
		k.Fatalf("a fresh store has the marks %+v (%v)", marks, err)
	}
	k.admitted(ofStock(2))
	k.raise(ofOrders(1))
	k.register(k.connect(), claim("never_raised", 1))

	all, err := k.Store.Marks(k.ctx)
	if err != nil || len(all) != 2 {
		k.Fatalf("all marks: %+v (%v)", all, err)
	}
	k.wantMark(all[0], ofOrders(1))
	k.wantMark(all[1], ofStock(2))
	if all[0].Sessions != 0 || all[1].Sessions != 1 || !all[0].Confirmed || !all[1].Confirmed {
		k.Errorf("all marks: %+v", all)
	}
	k.wantMark(k.mark(stock), ofStock(2))
	some, err := k.Store.Marks(k.ctx, stock, "never_raised", fence.Resource("unheard_of"))
	if err != nil || len(some) != 1 {
		k.Errorf("some marks: %+v (%v)", some, err)
	}
}
