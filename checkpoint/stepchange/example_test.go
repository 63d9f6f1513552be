package stepchange_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/coordinator"
	"github.com/ringfence/ringfence/checkpoint/stepchange"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/fencetest"
)

// say makes a step that prints a word.
func say(name, word string) checkpoint.Step[int] {
	return checkpoint.Do(name, func(_ context.Context, n int, _ checkpoint.Key) (int, error) {
		fmt.Println(word)
		return n + 1, nil
	})
}

// A process is shut down before the second step of its task. The next version of the program has
// renamed that step. It goes on there, since it says which step became which.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	// zookeeper.Open, etcd.Open or postgres.Open
	c := fencetest.NewMemory(10 * time.Second).Open()
	defer c.Close()
	report := checkpoint.Runner[int]{
		Lead:    fence.Lead{Elector: c, Resource: "report", Holder: "host-1"},
		Journal: coordinator.New(c.Documents()),
		Task:    checkpoint.Task[int]{Name: "report-2026-11-21"},
	}

	old, shutDown := context.WithCancel(ctx)
	print := checkpoint.Do("print", func(
		ctx context.Context, n int, _ checkpoint.Key,
	) (int, error) {
		shutDown()
		<-ctx.Done()
		return n, context.Cause(ctx)
	})
	report.Task.Steps = []checkpoint.Step[int]{say("collect", "collected"), print}
	_, err := report.Run(old)
	fmt.Println(err)

	report.Task.Steps = []checkpoint.Step[int]{say("collect", "collected"), say("mail", "mailed")}
	_, err = report.Run(ctx)
	fmt.Println("without a word about it:", errors.Is(err, checkpoint.ErrStepsChanged))

	report.Task.OnStepsChanged = stepchange.Map(map[string]string{"print": "mail"})
	end, err := report.Run(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(end.Status)
	// Output:
	// collected
	// context canceled
	// without a word about it: true
	// mailed
	// done
}
