package jobs_test

import (
	"context"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/ringfence/ringfence/fence/fencetest"
	"github.com/ringfence/ringfence/jobs"
	"github.com/ringfence/ringfence/jobs/job"
)

// Merchant is the input of the job, and Receipt its result.
type (
	Merchant struct {
		ID int `json:"id"`
	}
	Receipt struct {
		Merchant int `json:"merchant"`
		Cents    int `json:"cents"`
	}
)

// A program submits a job and waits for its result. A worker, here in the same program, runs it.
// The handler writes to databases under the job's term (run.Term), so that a worker which was
// paused and replaced is refused there.
func ExampleHandle() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	// zookeeper.Open, etcd.Open or postgres.Open
	coordinator := fencetest.NewMemory(10 * time.Second).Open()
	defer coordinator.Close()
	queue, err := jobs.New(coordinator, "settlement")
	if err != nil {
		log.Fatal(err)
	}

	worker := jobs.Worker{Queue: queue, Name: "host-7", Capacity: 8}
	jobs.Handle(&worker, "settle", func(
		ctx context.Context, run *jobs.Run, m Merchant,
	) (Receipt, error) {
		return Receipt{Merchant: m.ID, Cents: 1250}, nil
	})
	working, stop := context.WithCancel(ctx)
	var work sync.WaitGroup
	work.Go(func() {
		if err := worker.Run(working); err != nil {
			log.Print(err)
		}
	})

	id, err := jobs.Submit(ctx, queue, "settle", Merchant{ID: 17}, job.Spec{Retries: 3})
	if err != nil {
		log.Fatal(err)
	}
	end, err := queue.Wait(ctx, id)
	fmt.Println(end.State, string(end.Result), err)
	stop()
	work.Wait()
	// Output: done {"merchant":17,"cents":1250} <nil>
}
