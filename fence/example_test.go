package fence_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/fencetest"
)

// A leader is deposed while it works, and another process takes over. The first leader tries to
// write once more; the store refuses its token.
//
// The coordinator and the store are in memory here. Use zookeeper.Open and pgstore.NewRaiser.
func ExampleLead() {
	ctx := context.Background()
	coordinator := fencetest.NewMemory(10 * time.Second).Open()
	defer coordinator.Close()
	account := new(account)
	lead := fence.Lead{Elector: coordinator, Resource: "orders", Stores: []fence.Raiser{account}}

	var deposed fence.Claim
	lead.Holder = "billing-1"
	err := lead.Run(ctx, func(ctx context.Context, term *fence.Term) error {
		deposed = term.Claim()
		fmt.Println("billing-1 adds 10:", account.add(deposed, 10))
		_, _ = coordinator.Depose(ctx, "orders", term.Token()) // as an operator would
		<-ctx.Done()
		return nil
	})
	fmt.Println("billing-1 was deposed:", errors.Is(err, fence.ErrDeposed))

	lead.Holder = "billing-2"
	err = lead.Run(ctx, func(ctx context.Context, term *fence.Term) error {
		fmt.Println("billing-2 adds 50:", account.add(term.Claim(), 50))
		fmt.Println("billing-1 adds 10:", account.add(deposed, 10))
		return nil // Run resigns
	})
	fmt.Println("billing-2 has ended:", err)
	fmt.Println("the balance is", account.balance)
	// Output:
	// billing-1 adds 10: <nil>
	// billing-1 was deposed: true
	// billing-2 adds 50: <nil>
	// billing-1 adds 10: stale
	// billing-2 has ended: <nil>
	// the balance is 60
}

// account is a store: it keeps a mark, and checks each write against it in one atomic step.
type account struct {
	mark    fence.Token
	balance int
}

func (a *account) Raise(_ context.Context, c fence.Claim) error {
	if c.Token < a.mark {
		return &fence.Refusal{Reason: fence.ErrStale, Claim: c, Mark: a.mark}
	}
	a.mark = c.Token
	return nil
}

func (a *account) add(c fence.Claim, amount int) error {
	switch {
	case c.Token < a.mark:
		return fence.ErrStale
	case c.Token > a.mark:
		return fence.ErrNotRaised
	}
	a.balance += amount
	return nil
}
