package unfinished_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/coordinator"
	"github.com/ringfence/ringfence/checkpoint/unfinished"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/fencetest"
)

// bank is outside of the fence. It knows which payments it has made, by their keys.
type bank map[checkpoint.Key]int

// A process pays, and is gone before it can say so. The next one asks the bank whether the payment
// was made, and does not pay again.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	// zookeeper.Open, etcd.Open or postgres.Open
	c := fencetest.NewMemory(10 * time.Second).Open()
	defer c.Close()
	journal := coordinator.New(c.Documents())

	payments := bank{}
	host1, shutDown := context.WithCancel(ctx)
	pay := checkpoint.Step[int]{
		Name: "pay",
		Run: func(ctx context.Context, paid int, key checkpoint.Key) (int, error) {
			fmt.Println("paying")
			payments[key] = 100
			shutDown() // before the step has ended
			<-ctx.Done()
			return paid, context.Cause(ctx)
		},
		Ask: func(
			_ context.Context, paid int, key checkpoint.Key,
		) (unfinished.Decision, int, error) {
			amount, made := payments[key]
			if !made {
				return unfinished.RunAgain, paid, nil
			}
			fmt.Println("the bank has paid", amount)
			return unfinished.Finished, paid + amount, nil
		},
	}
	settle := func(ctx context.Context, host string) (paid int, err error) {
		lead := fence.Lead{Elector: c, Resource: "payments", Holder: host}
		return checkpoint.RunTask(ctx, lead, journal, "payment-2026-11-21", pay)
	}

	_, err := settle(host1, "host-1")
	fmt.Println(err)
	paid, err := settle(ctx, "host-2") // another process
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("paid:", paid)
	// Output:
	// paying
	// context canceled
	// the bank has paid 100
	// paid: 100
}
