package taskevent_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/coordinator"
	"github.com/ringfence/ringfence/checkpoint/taskevent"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/fencetest"
)

// say prints what happens to a task.
func say(e checkpoint.Event) {
	switch e.Kind {
	case taskevent.TookOver:
		fmt.Println("leads, at step", e.Checkpoint.Next())
	case taskevent.Retrying:
		fmt.Printf("%s failed: %v\n", e.Step, e.Err)
	default:
		fmt.Println(e.Kind, e.Step)
	}
}

// A task reports what it does. Its step fails once.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	// zookeeper.Open, etcd.Open or postgres.Open
	c := fencetest.NewMemory(10 * time.Second).Open()
	defer c.Close()

	attempts := 0
	pay := func(_ context.Context, paid int, _ checkpoint.Key) (int, error) {
		if attempts++; attempts == 1 {
			return paid, errors.New("the bank is closed")
		}
		return paid + 100, nil
	}
	_, err := checkpoint.Runner[int]{
		Lead:    fence.Lead{Elector: c, Resource: "payments", Holder: "host-1"},
		Journal: coordinator.New(c.Documents()),
		Task: checkpoint.Task[int]{
			Name:   "payment-2026-11-21",
			Steps:  []checkpoint.Step[int]{checkpoint.Do("pay", pay)},
			Retry:  checkpoint.Retry{Attempts: 2},
			Notify: say,
		},
	}.Run(ctx)
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// leads, at step pay
	// began pay
	// pay failed: the bank is closed
	// began pay
	// ended pay
	// done
}
