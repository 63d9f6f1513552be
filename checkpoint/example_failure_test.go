package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/stepchange"
	"github.com/ringfence/ringfence/checkpoint/unfinished"
)

// Nothing is a state for tasks that need none.
type Nothing struct{}

// A step that keeps failing stops the task, and a panic stops it at once. Fix the program, then
// call Resume: the task continues with that step.
func ExampleRetry() {
	ctx := context.Background()
	d, err := deploy(ctx, "")
	if err != nil {
		fmt.Println(err)
		return
	}
	errClosed := errors.New("bank closed")
	pay := func(ctx context.Context, n Nothing, key checkpoint.Key) (Nothing, error) {
		fmt.Println("paying")
		return n, errClosed
	}
	_, err = run(ctx, d, "payment", checkpoint.Task[Nothing]{
		Name:  "payment",
		Steps: []checkpoint.Step[Nothing]{{Name: "pay", Run: pay}},
		Retry: checkpoint.Retry{Attempts: 2, Backoff: checkpoint.Exponential(time.Millisecond,
			time.Second)},
	})
	fmt.Println(err)
	fmt.Println(errors.Is(err, checkpoint.ErrStopped), errors.Is(err, errClosed))
	// Output:
	// paying
	// paying
	// task payment is stopped at step "pay" (step 1 of 1, round 1) after 2 attempts: bank closed
	// true true
}

// The steps of a saved task are compared by name. Here the program has renamed a step since the
// task was saved.
func Example_stepsChanged() {
	ctx := context.Background()
	d, err := deploy(ctx, "")
	if err != nil {
		fmt.Println(err)
		return
	}
	say := func(
		word string, err error,
	) func(context.Context, Nothing, checkpoint.Key) (Nothing, error) {
		return func(_ context.Context, n Nothing, _ checkpoint.Key) (Nothing, error) {
			fmt.Println(word)
			return n, err
		}
	}
	task := checkpoint.Task[Nothing]{Name: "report", Steps: []checkpoint.Step[Nothing]{
		{Name: "collect", Run: say("collected", nil)},
		{Name: "print", Run: say("the printer is gone", context.DeadlineExceeded),
			Unfinished: unfinished.Stop},
	}}
	_, err = run(ctx, d, "report", task)
	fmt.Println(errors.Is(err, checkpoint.ErrStopped))
	if err := resume(ctx, d, "report", "report"); err != nil {
		fmt.Println(err)
	}

	task.Steps[1] = checkpoint.Step[Nothing]{Name: "mail", Run: say("mailed", nil)}
	_, err = run(ctx, d, "report", task)
	if changed, ok := errors.AsType[*checkpoint.StepsChangedError](err); ok {
		fmt.Println("saved with", changed.Saved, "and now", changed.Given)
	}

	task.OnStepsChanged = stepchange.Map(map[string]string{"print": "mail"})
	done, err := run(ctx, d, "report", task)
	printError(err)
	fmt.Println(done.Status)
	// Output:
	// collected
	// the printer is gone
	// true
	// saved with [collect print] and now [collect mail]
	// mailed
	// done
}
