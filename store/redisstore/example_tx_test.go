package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/store/redisstore"
)

// A leader without a guard sends its commands under its term's token, over any client. Here two
// terms are made up; fence.Lead gets them from an election.
func ExampleTx() {
	ctx := context.Background()
	db, url := cache(ctx)
	defer db.Close()

	first := fence.Claim{
		Resource: "orders", Token: 7, Issuer: elector.Unverified, Holder: "billing-1",
	}
	second := fence.Claim{
		Resource: "orders", Token: 8, Issuer: elector.Unverified, Holder: "billing-2",
	}

	raise(ctx, url, first)
	var delivery redisstore.Tx
	delivery.Do("INCRBY", "stock", 5)
	delivery.Do("GET", "stock")
	replies, err := delivery.Exec(ctx, db, first)
	fmt.Println("first leader:", replies, err)

	raise(ctx, url, second) // a newer leader is elected
	_, err = delivery.Exec(ctx, db, first)
	fmt.Println("first leader is refused:", errors.Is(err, fence.ErrStale))
	replies, err = new(redisstore.Tx).Do("INCRBY", "stock", -1).Exec(ctx, db, second)
	fmt.Println("second leader:", replies, err)
	// Output:
	// first leader: [5 5] <nil>
	// first leader is refused: true
	// second leader: [4] <nil>
}

// Your own Lua runs under the token too. Its arguments begin at ARGV[4].
func ExampleScript() {
	ctx := context.Background()
	db, url := cache(ctx)
	defer db.Close()
	claim := fence.Claim{
		Resource: "orders", Token: 7, Issuer: elector.Unverified, Holder: "billing-1",
	}
	raise(ctx, url, claim)

	reserve := redisstore.NewScript(`
		if tonumber(redis.call('GET', KEYS[1]) or '0') < tonumber(ARGV[4]) then
			return 'sold out'
		end
		return redis.call('DECRBY', KEYS[1], ARGV[4])`)
	db.Set(ctx, "seats", 3, 0)
	for range 2 {
		left, err := reserve.Run(ctx, db, claim, []string{"seats"}, 2)
		fmt.Println(left, err)
	}
	// Output:
	// 1 <nil>
	// sold out <nil>
}

// raise does what fence.Lead does with its Stores before work starts.
func raise(ctx context.Context, url string, c fence.Claim) {
	r := redisstore.NewRaiser(url, nil)
	defer r.Close()
	if err := r.Raise(ctx, c); err != nil {
		log.Fatal(err)
	}
}
