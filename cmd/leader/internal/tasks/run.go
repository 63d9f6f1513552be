package tasks

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/coordinators"
)

// taskRun is one `leader task FILE`.
type taskRun struct {
	*Invocation
	ctx context.Context // of the whole run

	// over is closed after ctx and the task's context have ended. A pause between rounds waits for it:
	// if the pause ended with ctx, the next step could begin before the task's context ends.
	over chan struct{}

	elector     *recordingElector
	redis       *redisClient // nil without Redis steps
	redisRaiser raiser
	key         checkpoint.Key // of the current step; only for the goroutine that runs it
	stdout      io.Writer      // of commands
	stderr      io.Writer
	lastWarned  time.Time // of an interruption
}

// Run implements the subcommand task: it stands for election, and runs the steps as the leader. It
// returns the exit code.
func (inv *Invocation) Run(ctx context.Context) int {
	defer inv.closeStores()
	journal, closeJournal, err := inv.journal(ctx)
	if err != nil {
		return cli.Failed(ctx, inv.Log, "open the journal", inv.scrubbed(err))
	}
	defer closeJournal()
	r := &taskRun{
		Invocation: inv, ctx: ctx,
		elector: &recordingElector{
			Elector: &coordinators.Announcer{Coordinator: inv.Coordinator, Log: inv.Log},
		},
	}
	r.stdout, r.stderr = inv.streams()
	if inv.Bar != nil {
		defer inv.Bar.begin(string(inv.Name))()
	}
	return r.run(journal)
}

// run campaigns and runs the steps until the task ends, or this copy of it.
func (r *taskRun) run(journal checkpoint.Journal) int {
	if done, err := r.checkJournal(journal); done || err != nil {
		return r.ended(checkpoint.Checkpoint{}, err)
	}
	c, closeRedis := r.runner(journal)
	defer closeRedis()
	return r.ended(r.inContext(c.Run))
}

// runner returns the runner of the task. Call closeRedis at the end.
func (r *taskRun) runner(
	journal checkpoint.Journal,
) (c checkpoint.Runner[json.RawMessage], closeRedis func()) {
	stores, closeRedis := r.raisers(), func() {}
	for _, s := range r.File.Steps {
		if len(s.Redis) > 0 && r.redis == nil {
			r.redis = &redisClient{url: r.redisURL()}
			closeRedis = r.redis.close
			r.redisRaiser = r.raiser(r.redis.url, r.redis)
			stores = append(stores, r.redisRaiser)
		}
	}
	return checkpoint.Runner[json.RawMessage]{
		Lead: fence.Lead{
			Elector: r.elector, Resource: r.Resource, Holder: r.Settings.Holder, Stores: stores,
		},
		Journal: journal, Task: r.task(), Observer: r.Coordinator,
	}, closeRedis
}

// inContext runs the task in a context that ends with the run's, and before over is closed.
func (r *taskRun) inContext(
	run func(context.Context) (checkpoint.Checkpoint, error),
) (checkpoint.Checkpoint, error) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.ctx))
	defer cancel(nil)
	r.over = make(chan struct{})
	defer context.AfterFunc(r.ctx, func() {
		cancel(context.Cause(r.ctx))
		close(r.over)
	})()
	return run(ctx)
}

// checkJournal reads the checkpoint before the election, so that a broken journal shows now, and
// not later when the leader fails. It reports whether the task is done already.
func (r *taskRun) checkJournal(journal checkpoint.Journal) (done bool, err error) {
	ctx, cancel := coordinators.Patience(r.ctx, r.Settings.SessionTimeout)
	defer cancel()
	found, err := journal.Load(ctx, r.Name)
	switch {
	// a guard is in between; it will admit this copy as the leader
	case errors.Is(err, fence.ErrNoToken):
		r.Log.Warn("the journal is behind a guard, so this copy cannot follow the task while another "+
			"leads", "next", "set LEADER_JOURNAL to the database itself", "cause", err.Error())
		return false, nil
	case errors.Is(err, checkpoint.ErrTransient),
		err != nil && ctx.Err() != nil && r.ctx.Err() == nil:
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

// wait waits for d, and then while leadership is suspended. Its error is the cause with which ctx
// or the term has ended.
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

// recordingElector remembers the last term that it has won.
type recordingElector struct {
	fence.Elector
	won atomic.Pointer[fence.Term]
}

// Campaign implements fence.Elector.
func (e *recordingElector) Campaign(
	ctx context.Context, r fence.Resource, holder string,
) (*fence.Term, error) {
	t, err := e.Elector.Campaign(ctx, r, holder)
	if err == nil {
		e.won.Store(t)
	}
	return t, err
}

// term is the term in which a step runs.
func (e *recordingElector) term() *fence.Term { return e.won.Load() }
