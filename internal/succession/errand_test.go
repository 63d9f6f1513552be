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
	"github.com/ringfence/ringfence/fence"
)

const (
	resource = fence.Resource("nightly")
	taskName = checkpoint.Name("succession")
	rounds   = 4

	errandMost = 3 * time.Minute
)

// errand is what a child process is told.
type errand struct {
	Journal string // one of journals
	URL     string // of the journal
	Raise   string // URL that raises marks
	Token   fence.Token
	Wait    bool // for a line on the input, once it has taken the checkpoint
	Ending  *ending
}

// tally is the task's state.
type tally struct{ Steps int }

// exits of a child.
const (
	exitDone    = 0
	exitFailed  = 1
	exitDeposed = 3
)

// run is the child. It prints "took VERSION" once it has the checkpoint.
func (e errand) run() int {
	ctx, cancel := context.WithTimeout(context.Background(), errandMost)
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

func (e errand) lead(ctx context.Context) error {
	o, err := journals[e.Journal].open(ctx, e)
	if err != nil {
		return err
	}
	defer o.close()
	if err := o.journal.Raise(ctx, o.term.Claim()); err != nil {
		return err
	}
	in := bufio.NewReader(os.Stdin)
	task := checkpoint.Task[tally]{Name: taskName, Rounds: rounds, Steps: o.steps, Notify: func(n checkpoint.Event) {
		switch n.Kind {
		case checkpoint.TookOver:
			fmt.Println("took", n.Checkpoint.Version)
			if e.Wait {
				_, _ = in.ReadString('\n')
			}
		case checkpoint.Began:
			e.Ending.begun++
		}
	}}
	_, err = task.Run(ctx, o.term, o.journal, checkpoint.Checkpoint{})
	return err
}

// errandFromEnvironment returns what this process was started for, if it is a child.
func errandFromEnvironment() *errand {
	text := os.Getenv("RINGFENCE_ERRAND")
	if text == "" {
		return nil
	}
	e := &errand{Ending: &ending{}}
	if err := json.Unmarshal([]byte(text), e); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(exitFailed)
	}
	return e
}

// opened is a journal and a task for it, in the child.
type opened struct {
	journal checkpoint.Journal
	term    *fence.Term
	steps   []checkpoint.Step[tally]
	close   func()
}

// forAnHour is a term whose loss only the store tells of.
func forAnHour(e errand) *fence.Term {
	claim := fence.Claim{Resource: resource, Token: e.Token, Issuer: fence.Unverified, Holder: holder(os.Getpid())}
	term, _ := fence.NewTerm(claim, time.Now(), time.Hour, nothing{})
	return term
}

func holder(pid int) string { return fmt.Sprintf("process %d", pid) }

type nothing struct{}

func (nothing) Acknowledge(context.Context) error { return nil }
func (nothing) Release(context.Context) error     { return nil }

// asynchronous is a step whose effect is somewhere else.
func asynchronous(name string, e *ending, effect func(ctx context.Context, key checkpoint.Key) error) checkpoint.Step[tally] {
	return checkpoint.Step[tally]{Name: name, Run: func(ctx context.Context, t tally, key checkpoint.Key) (tally, error) {
		e.reach(beforeEffect)
		if err := effect(ctx, key); err != nil {
			return t, err
		}
		e.reach(afterEffect)
		t.Steps++
		return t, nil
	}}
}
