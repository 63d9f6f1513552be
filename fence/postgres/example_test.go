package postgres_test

import (
	"context"
	"fmt"
	"log"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/postgres"
)

// A leader program that has nothing but a database.
func Example() {
	ctx := context.Background()
	coordinator, err := postgres.Open(ctx, database(ctx), postgres.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer coordinator.Close()

	lead := fence.Lead{
		Elector:  coordinator,
		Resource: "orders",
		Holder:   "billing-7",
		// Stores: the databases where the mark is raised before work starts
	}
	err = lead.Run(ctx, func(ctx context.Context, term *fence.Term) error {
		_, leaders, err := coordinator.Leaders(ctx, "orders")
		if err != nil {
			return err
		}
		fmt.Println(leaders[0].Holder, "leads:", leaders[0].Token == term.Token())
		return nil // ctx ends with the term; context.Cause says why
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: billing-7 leads: true
}
