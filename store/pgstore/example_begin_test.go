package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/store/pgstore"
)

// A leader without a guard begins every transaction under its term's token. Here two terms are made
// up; fence.Lead gets them from an election.
func ExampleBegin() {
	ctx := context.Background()
	pool, url := database(ctx)
	defer pool.Close()

	first := fence.Claim{
		Resource: "orders", Token: 7, Issuer: elector.Unverified, Holder: "billing-1",
	}
	second := fence.Claim{
		Resource: "orders", Token: 8, Issuer: elector.Unverified, Holder: "billing-2",
	}

	raise(ctx, url, first)
	fmt.Println("first leader:", transfer(ctx, pool, first))

	raise(ctx, url, second) // a newer leader is elected
	err := transfer(ctx, pool, first)
	fmt.Println("first leader is refused:", errors.Is(err, fence.ErrStale))
	fmt.Println("second leader:", transfer(ctx, pool, second))
	// Output:
	// first leader: <nil>
	// first leader is refused: true
	// second leader: <nil>
}

// transfer is an ordinary transaction, except for Begin.
func transfer(ctx context.Context, pool *pgxpool.Pool, c fence.Claim) error {
	tx, err := pgstore.Begin(ctx, pool, c, pgx.TxOptions{})
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx)
	if _, err := tx.Exec(ctx, "update account set balance = balance + 10"); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// raise does what fence.Lead does with its Stores before work starts.
func raise(ctx context.Context, url string, c fence.Claim) {
	r := pgstore.NewRaiser(url, nil)
	defer r.Close()
	if err := r.Raise(ctx, c); err != nil {
		log.Fatal(err)
	}
}
