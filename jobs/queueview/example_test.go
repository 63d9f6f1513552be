package queueview_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/ringfence/ringfence/fence/fencetest"
	"github.com/ringfence/ringfence/jobs"
	"github.com/ringfence/ringfence/jobs/job"
	"github.com/ringfence/ringfence/jobs/queueview"
)

// Merchant is the payload of a job.
type Merchant struct {
	ID int `json:"id"`
}

// A job was submitted, and nothing happens. An operator's program looks why.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	// zookeeper.Open, etcd.Open or postgres.Open
	coordinator := fencetest.NewMemory(10 * time.Second).Open()
	defer coordinator.Close()
	view, err := queueview.New(coordinator, "settlement")
	if err != nil {
		log.Fatal(err)
	}
	_, err = jobs.Submit(ctx, view.Queue, "settle", Merchant{ID: 17}, job.Spec{Title: "merchant 17"})
	if err != nil {
		log.Fatal(err)
	}

	now, err := view.Overview(ctx, 10)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("waiting:", now.Counts[job.Waiting])
	for _, waiting := range now.Waiting {
		fmt.Printf("%s: %s\n", waiting.Title, queueview.WhyWaiting(waiting, now.Workers, now.Active))
	}
	// Output:
	// waiting: 1
	// merchant 17: there is no worker
}
