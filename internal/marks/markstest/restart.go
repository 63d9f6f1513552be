package markstest

import (
	"errors"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/test/contract"
)

var restartClauses = []contract.Clause[*stage]{
	{Name: "After a restart a mark is unconfirmed or still right", Holds: restartKeepsOrDoubts},
	{
		Name:  "After a restart an older token can raise only an unconfirmed mark",
		Holds: restartDoubtsOlder,
	},
	{Name: "Sessions from before a restart keep nobody out", Holds: restartEndsSessions},
}

// restarted restarts the server, or skips the clause where the fixture cannot.
func (k *stage) restarted() {
	k.Helper()
	if k.Restart == nil {
		k.Skip("this fixture cannot restart its server")
	}
	k.Restart(k.TB)
}

func restartKeepsOrDoubts(k *stage) {
	k.admitted(ofOrders(5))
	k.restarted()
	if m := k.mark(orders); m.Confirmed && m.Token != ofOrders(5).Token {
		k.Errorf("the mark was lost and is confirmed: %+v", m)
	}
	k.raise(ofOrders(5))
	if m := k.mark(orders); !m.Confirmed || m.Token != ofOrders(5).Token {
		k.Errorf("after a raise the mark is %+v", m)
	}
	k.works(k.admitted(ofOrders(5)))
}

func restartDoubtsOlder(k *stage) {
	k.admitted(ofOrders(5))
	k.restarted()
	st, err := k.Store.Register(k.ctx, k.connect().Session(), []fence.Claim{ofOrders(4)})
	switch {
	case errors.Is(err, fence.ErrStale):
	case err != nil:
		k.Fatal(err)
	case st.Next != marks.MustRaise || st.Mark.Confirmed:
		k.Errorf("an older token met %s and the mark %+v", name(st.Next), st.Mark)
	}
}

func restartEndsSessions(k *stage) {
	old := k.admitted(ofOrders(1))
	k.restarted()
	fresh := k.admitted(ofOrders(2))
	k.works(fresh)
	k.ended(old)
	old.Close()
	k.release(old) // must not drop the record of a session that has the same id in this run
	if n := k.recorded(orders); n != 1 {
		k.Errorf("%d sessions are recorded, want 1", n)
	}
}
