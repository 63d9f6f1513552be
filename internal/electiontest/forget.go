package electiontest

import (
	"context"
	"sync"
	"testing"

	"github.com/ringfence/ringfence/fence"
)

// Forgets checks that an election is forgotten only without candidates, and goes on with higher tokens.
// left reports whether the coordinator has anything of it.
func Forgets(t *testing.T, open func() fence.Coordinator, r fence.Resource, left func() bool) {
	t.Helper()
	c := open()
	forget := func() {
		t.Helper()
		if err := c.(fence.Forgetter).Forget(t.Context(), r); err != nil {
			t.Error(err)
		}
	}
	forget() // there is nothing yet
	term := Win(t, c, r, "first")
	forget()
	if queue, err := c.Candidates(t.Context(), r); err != nil || len(queue) != 1 || !left() {
		t.Errorf("the election of a leader was forgotten: %v, %v", queue, err)
	}
	if err := term.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	Eventually(t, "it is forgotten", func() bool { forget(); return !left() })
	if next := Win(t, c, r, "next"); next.Token() <= term.Token() {
		t.Errorf("token %v follows %v", next.Token(), term.Token())
	} else if err := next.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	forgetMeanwhile(t, []fence.Coordinator{c, open(), open()}, r, forget)
}

// forgetMeanwhile campaigns on several clients while the election is forgotten again and again.
func forgetMeanwhile(
	t *testing.T, clients []fence.Coordinator, r fence.Resource, forget func(),
) {
	t.Helper()
	const rounds = 15
	var mu sync.Mutex
	var last fence.Token
	ctx, stop := context.WithCancel(t.Context())
	var campaigning, forgetting sync.WaitGroup
	for _, c := range clients {
		campaigning.Go(func() {
			for range rounds {
				term, err := c.Campaign(t.Context(), r, "one of several")
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if term.Token() <= last {
					t.Errorf("token %v follows %v", term.Token(), last)
				}
				last = term.Token()
				mu.Unlock()
				if err := term.Resign(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	forgetting.Go(func() {
		for ctx.Err() == nil {
			forget()
		}
	})
	campaigning.Wait()
	stop()
	forgetting.Wait()
}

// ForgetsSeveral checks that of several elections those without candidates are forgotten.
func ForgetsSeveral(t *testing.T, c fence.Coordinator, left func(fence.Resource) bool) {
	t.Helper()
	terms := map[fence.Resource]*fence.Term{}
	all := []fence.Resource{"unheard_of", "orders", "stock", "carts"}
	for _, r := range all[1:] {
		terms[r] = Win(t, c, r, "first")
	}
	for _, r := range []fence.Resource{"orders", "carts"} {
		if err := terms[r].Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	Eventually(t, "two of them are forgotten", func() bool {
		if err := c.(fence.Forgetter).Forget(t.Context(), all...); err != nil {
			t.Fatal(err)
		}
		return !left("orders") && !left("carts")
	})
	if !left("stock") || terms["stock"].State() == fence.Lost {
		t.Error("the election of a leader was forgotten")
	}
}
