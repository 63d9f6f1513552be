package tasks

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/cli"
	"github.com/ringfence/ringfence/internal/coordinators"
	"github.com/ringfence/ringfence/internal/supervise"
)

// taskRun is one `leader task FILE`.
type taskRun struct {
	*Invocation
	ctx         context.Context // of the whole run
	over        chan struct{}   // closed when ctx has ended and the task can tell: a pause that ended before would let a step begin
	reaper      *supervise.Reaper
	elector     *incumbent
	redis       *redisClient // nil without Redis steps
	redisRaiser raiser
	key         checkpoint.Key // of the step that runs; only for the goroutine that runs it
	stdout      io.Writer      // of commands
	stderr      io.Writer
	told        time.Time // when an interruption was last told of
}

// Run is the subcommand task: it takes part in the election, and runs the steps as the leader. It returns the exit code.
func (inv *Invocation) Run(ctx context.Context) int {
	journal, shut, err := inv.journal(ctx)
	if err != nil {
		return cli.Failed(ctx, inv.Log, "open the journal", inv.scrubbed(err))
	}
	defer shut()
	reaper, stop := supervise.StartReaper()
	defer stop()
	r := &taskRun{
		Invocation: inv, ctx: ctx, reaper: reaper, stdout: inv.Stdout, stderr: inv.Stderr,
		elector: &incumbent{Elector: &coordinators.Announcer{Elector: inv.Coordinator, Log: inv.Log}},
	}
	if inv.Bar != nil {
		r.stdout, r.stderr = inv.Bar.around(inv.Stdout), inv.Bar
		defer inv.Bar.begin(string(inv.Name))()
	}
	return r.run(journal)
}

// run takes part until the task has come to its end, or this copy of it.
func (r *taskRun) run(journal checkpoint.Journal) int {
	if done, err := r.look(journal); done || err != nil {
		return r.ended(checkpoint.Checkpoint{}, err)
	}
	stores := r.raisers()
	for _, s := range r.File.Steps {
		if len(s.Redis) > 0 && r.redis == nil {
			r.redis = &redisClient{url: r.redisURL()}
			defer r.redis.close()
			r.redisRaiser = r.raiser(r.redis.url, r.redis)
			stores = append(stores, r.redisRaiser)
		}
	}
	c := checkpoint.Candidate[json.RawMessage]{
		Lead:    fence.Lead{Elector: r.elector, Resource: r.Resource, Holder: r.Settings.Holder, Stores: stores},
		Journal: journal, Task: r.task(), Observer: r.Coordinator,
	}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.ctx))
	defer cancel(nil)
	r.over = make(chan struct{})
	defer context.AfterFunc(r.ctx, func() {
		cancel(context.Cause(r.ctx))
		close(r.over)
	})()
	return r.ended(c.Run(ctx))
}

// look reads the checkpoint before anybody stands for election: a journal that is not right shows now, and not in the
// night when the leader falls. A task that is done stays done.
func (r *taskRun) look(journal checkpoint.Journal) (done bool, err error) {
	ctx, cancel := coordinators.Patience(r.ctx, r.Settings.SessionTimeout)
	defer cancel()
	found, err := journal.Load(ctx, r.Name)
	switch {
	case errors.Is(err, fence.ErrNoToken): // there is a guard in between; as the leader we shall be let in
		r.Log.Warn("the journal is behind a guard, so this copy cannot follow the task while another leads", "next", "set LEADER_JOURNAL to the database itself", "cause", err.Error())
		return false, nil
	case errors.Is(err, checkpoint.ErrTransient), err != nil && ctx.Err() != nil && r.ctx.Err() == nil:
		r.Log.Warn("the journal does not answer yet", "cause", r.Settings.scrub(err.Error()))
		return false, nil
	case err != nil:
		return false, err
	}
	if len(found) == 0 {
		return false, nil
	}
	return found[0].Status == checkpoint.Done, nil
}

// wait lets nothing begin before d has passed, nor while leadership is suspended. Its error is why ctx or the term has ended.
func (r *taskRun) wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return r.elector.term().Wait(ctx)
}

// incumbent is an elector that remembers the last term it has won.
type incumbent struct {
	fence.Elector
	won atomic.Pointer[fence.Term]
}

// Campaign implements fence.Elector.
func (i *incumbent) Campaign(ctx context.Context, r fence.Resource, holder string) (*fence.Term, error) {
	t, err := i.Elector.Campaign(ctx, r, holder)
	if err == nil {
		i.won.Store(t)
	}
	return t, err
}

// term is the one that a step is run in.
func (i *incumbent) term() *fence.Term { return i.won.Load() }
