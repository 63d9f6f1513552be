package fence_test

import (
	"context"
	"fmt"

	"github.com/ringfence/ringfence/fence"
)

// After a restart of the database the mark has to be raised again. RetryRaised does that and
// repeats the call.
func ExampleClaim_RetryRaised() {
	ctx := context.Background()
	claim := fence.Claim{Resource: "orders", Token: 7, Issuer: "zk:1", Holder: "billing-1"}
	account := new(account) // as after a restart: no mark

	fmt.Println(account.add(claim, 10))
	err := claim.RetryRaised(ctx, account, func(context.Context) error {
		return account.add(claim, 10)
	})
	fmt.Println(err, account.balance)
	// Output:
	// not raised
	// <nil> 10
}
