package coordinator_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/coordinator"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/fencetest"
)

// step prints its key. The receiver of its effect drops a key that it has seen.
func step(_ context.Context, done int, key checkpoint.Key) (int, error) {
	fmt.Println(key)
	return done + 1, nil
}

// A task of two steps keeps its checkpoint beside the elections. If the process stops, the next
// leader goes on at the step that was not published.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c := fencetest.NewMemory(10 * time.Second).Open() // zookeeper.Open, etcd.Open or postgres.Open
	defer c.Close()

	lead := fence.Lead{Elector: c, Resource: "ledger", Holder: "host-1"}
	done, err := checkpoint.RunTask(ctx, lead, coordinator.New(c.Documents()), "report-2026-11-21",
		checkpoint.Do("export", step), checkpoint.Do("send", step))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(done, "steps are done")
	// Output:
	// report-2026-11-21/1/1/export
	// report-2026-11-21/1/1/send
	// 2 steps are done
}
