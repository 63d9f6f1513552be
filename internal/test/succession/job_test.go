package succession

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/taskevent"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
)

const (
	resource = fence.Resource("nightly")
	taskName = checkpoint.Name("succession")
	rounds   = 4

	jobTimeout = 3 * time.Minute
)

// job is the job of a child process.
type job struct {
	Journal string // a key of journals
	URL     string // of the journal
	Raise   string // URL for raising marks
	Token   fence.Token
	Wait    bool // wait for a line on stdin after taking the checkpoint
	Ending  *ending
}

// tally is the task's state.
type tally struct{ Steps int }

// Exit codes of a child.
const (
	exitDone    = 0
	exitFailed  = 1
	exitDeposed = 3
)

// run runs the job in the child. It prints "took VERSION" once it has the checkpoint.
func (e job) run() int {
	ctx, cancel := context.WithTimeout(context.Background(), jobTimeout)
	defer cancel()
	err := error(nil)
	if e.Journal == "hot" {
		err = e.stand(ctx)
	} else {
		err = e.lead(ctx)
	}
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, fence.ErrLost):
		fmt.Fprintln(os.Stderr, e.Token, err)
		return exitDeposed
	}
	fmt.Fprintln(os.Stderr, e.Token, "failed:", err)
	return exitFailed
}

func (e job) lead(ctx context.Context) error {
	o, err := journals[e.Journal].open(ctx, e)
	if err != nil {
		return err
	}
	defer o.close()
	if err := o.journal.Raise(ctx, o.term.Claim()); err != nil {
		return err
	}
	in := bufio.NewReader(os.Stdin)
	task := checkpoint.Task[tally]{Name: taskName, Rounds: rounds, Steps: o.steps,
		Notify: func(n checkpoint.Event) {
			switch n.Kind {
			case taskevent.TookOver:
				fmt.Println("took", n.Checkpoint.Version)
				if e.Wait {
					_, _ = in.ReadString('\n')
				}
			case taskevent.Began:
				e.Ending.begun++
			}
		}}
	_, err = task.Run(ctx, o.term, o.journal, checkpoint.Checkpoint{})
	return err
}

// jobFromEnvironment returns the job of this process, or nil if it is not a child.
func jobFromEnvironment() *job {
	text := os.Getenv("RINGFENCE_JOB")
	if text == "" {
		return nil
	}
	e := &job{Ending: &ending{}}
	if err := json.Unmarshal([]byte(text), e); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(exitFailed)
	}
	return e
}

// opened is an open journal and a task for it, in the child.
type opened struct {
	journal checkpoint.Journal
	term    *fence.Term
	steps   []checkpoint.Step[tally]
	close   func()
}

// forAnHour returns a term of an hour, whose loss only the store reports.
func forAnHour(e job) *fence.Term {
	claim := fence.Claim{
		Resource: resource, Token: e.Token, Issuer: elector.Unverified, Holder: holder(os.Getpid()),
	}
	term, _ := elector.NewTerm(claim, time.Now(), time.Hour, nothing{})
	return term
}

func holder(pid int) string { return fmt.Sprintf("process %d", pid) }

type nothing struct{}

func (nothing) Acknowledge(context.Context) error { return nil }
func (nothing) Release(context.Context) error     { return nil }

// asynchronous is a step with an effect outside of the journal.
func asynchronous(
	name string, e *ending, effect func(ctx context.Context, key checkpoint.Key) error,
) checkpoint.Step[tally] {
	return checkpoint.Step[tally]{Name: name, Run: func(
		ctx context.Context, t tally, key checkpoint.Key,
	) (tally, error) {
		e.reach(beforeEffect)
		if err := effect(ctx, key); err != nil {
			return t, err
		}
		e.reach(afterEffect)
		t.Steps++
		return t, nil
	}}
}
