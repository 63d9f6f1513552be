package etcd_test

import (
	"context"
	"fmt"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/etcd"
)

// A process wins a term, works while it lasts, and resigns.
func Example() {
	ctx := context.Background()
	url := cluster(ctx) // etcd://e1:2379,e2:2379,e3:2379/ringfence
	coordinator, err := etcd.Open(ctx, url, etcd.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer coordinator.Close()

	term, err := coordinator.Campaign(ctx, "orders", "billing-7")
	if err != nil {
		fmt.Println(err)
		return
	}
	_, leaders, err := coordinator.Leaders(ctx, "orders")
	fmt.Println(leaders[0].Holder, "leads:", leaders[0].Token == term.Token(), err)
	fmt.Println(term.Resign(ctx), term.State() == fence.Lost)
	// Output:
	// billing-7 leads: true <nil>
	// <nil> true
}
