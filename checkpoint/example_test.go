package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/coordinator"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/fencetest"
)

// Totals is the state of the task. It is stored as JSON after each step.
type Totals struct {
	Orders int `json:"orders"`
	Cents  int `json:"cents"`
}

// The process that runs a task of three steps is shut down in the second one. Another process goes
// on there: the first step does not run again.
//
// The coordinator is in memory here, and keeps the checkpoints, too. Use zookeeper.Open, etcd.Open
// or postgres.Open, and for steps that write to Postgres pgjournal.New and pgjournal.Step.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c := fencetest.NewMemory(10 * time.Second).Open()
	defer c.Close()
	journal := coordinator.New(c.Documents())

	host1, shutDown := context.WithCancelCause(ctx)
	count := func(_ context.Context, t Totals, _ checkpoint.Key) (Totals, error) {
		fmt.Println("counting")
		t.Orders = 3
		return t, nil
	}
	add := func(ctx context.Context, t Totals, key checkpoint.Key) (Totals, error) {
		fmt.Println("adding under", key)
		if host1.Err() == nil {
			shutDown(errors.New("host-1 is shut down"))
			<-ctx.Done()
			return t, context.Cause(ctx)
		}
		t.Cents = 100 * t.Orders
		return t, nil
	}
	report := func(_ context.Context, t Totals, _ checkpoint.Key) (Totals, error) {
		fmt.Println("reporting", t.Cents)
		return t, nil
	}
	settle := func(ctx context.Context, host string) (Totals, error) {
		lead := fence.Lead{Elector: c, Resource: "ledger", Holder: host}
		return checkpoint.RunTask(ctx, lead, journal, "settlement-2026-11-21",
			checkpoint.Do("count", count), checkpoint.Do("add", add), checkpoint.Do("report", report))
	}

	_, err := settle(host1, "host-1")
	fmt.Println(err)
	totals, err := settle(ctx, "host-2") // another process
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("settled:", totals.Orders, "orders")
	// Output:
	// counting
	// adding under settlement-2026-11-21/1/1/add
	// host-1 is shut down
	// adding under settlement-2026-11-21/1/1/add
	// reporting 300
	// settled: 3 orders
}
