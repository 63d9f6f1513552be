package tasks

import (
	"context"
	"errors"
	"fmt"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/internal/coordinators"
)

// edit changes a saved checkpoint under a term.
type edit func(
	ctx context.Context, t *fence.Term, j checkpoint.Journal, task checkpoint.Name,
) (checkpoint.Checkpoint, error)

// Resume implements the subcommand task resume. It returns the exit code.
func (inv *Invocation) Resume(ctx context.Context) int {
	return inv.edit(ctx, checkpoint.Resume)
}

// Restart implements the subcommand task restart. It returns the exit code.
func (inv *Invocation) Restart(ctx context.Context) int {
	return inv.edit(ctx, checkpoint.Restart)
}

// edit wins a term, changes the checkpoint and resigns.
func (inv *Invocation) edit(ctx context.Context, change edit) int {
	defer inv.closeStores()
	journal, closeJournal, err := inv.journal(ctx)
	if err != nil {
		return cli.Failed(ctx, inv.Log, "open the journal; nothing was changed", inv.scrubbed(err))
	}
	defer closeJournal()
	before, err := inv.saved(ctx, journal)
	if err != nil {
		return cli.Failed(ctx, inv.Log, "read the checkpoint; nothing was changed", inv.scrubbed(err))
	}
	lead := fence.Lead{
		Elector: &impatient{inv.Coordinator, inv}, Resource: before.Resource,
		Holder: inv.Settings.Holder, Stores: append(inv.raisers(), journal),
	}
	var after checkpoint.Checkpoint
	err = lead.Run(ctx, func(ctx context.Context, t *fence.Term) (err error) {
		after, err = change(ctx, t, journal, inv.Name)
		return err
	})
	if after.Version > before.Version {
		fmt.Fprintf(inv.Stdout, "task %s is %s at step %s, run %d; start leader task to continue\n",
			after.Task, after.Status, position(after), after.Run)
		return cli.Done // even if it could not resign
	}
	if err != nil {
		return cli.Failed(ctx, inv.Log, "change the checkpoint", inv.scrubbed(err))
	}
	fmt.Fprintf(inv.Stdout, "task %s is %s, not stopped; nothing was changed\n",
		after.Task, after.Status)
	return cli.Done
}

// saved reads the checkpoint, which also names the resource whose leader may change it.
func (inv *Invocation) saved(
	ctx context.Context, j checkpoint.Journal,
) (checkpoint.Checkpoint, error) {
	ctx, cancel := coordinators.Patience(ctx, inv.Settings.SessionTimeout)
	defer cancel()
	found, err := j.Load(ctx, inv.Name)
	switch {
	case err != nil:
		u, _ := inv.journalAt()
		return checkpoint.Checkpoint{}, fmt.Errorf("%w: %s", err, loadHint(kindOf(u.URL), err))
	case len(found) == 0:
		return checkpoint.Checkpoint{}, fmt.Errorf("%w: %s has never begun",
			checkpoint.ErrNotFound, inv.Name)
	case inv.File != nil && found[0].Resource != inv.File.Resource:
		return checkpoint.Checkpoint{}, fmt.Errorf("%w: leaders of %q ran it, but the file says %q",
			checkpoint.ErrOtherResource, found[0].Resource, inv.File.Resource)
	}
	return found[0], nil
}

// impatient is an elector that waits no longer than one session timeout: enough if the leader is
// about to resign, or has just died.
type impatient struct {
	elector.Coordinator
	*Invocation
}

// Campaign implements fence.Elector.
func (i *impatient) Campaign(
	ctx context.Context, r fence.Resource, holder string,
) (*fence.Term, error) {
	i.logLeader(ctx, r)
	bounded, cancel := coordinators.Patience(ctx, i.Settings.SessionTimeout)
	defer cancel()
	term, err := i.Coordinator.Campaign(bounded, r, holder)
	if err == nil || bounded.Err() == nil || ctx.Err() != nil {
		return term, err
	}
	lookup, stop := coordinators.Patience(ctx, i.Settings.SessionTimeout)
	defer stop()
	queue, unknown := i.Candidates(lookup, r)
	if unknown != nil || len(queue) == 0 {
		return nil, errors.Join(err, unknown)
	}
	return nil, fmt.Errorf("%s leads %s with token %s, and only the leader may change its tasks: "+
		"stop it first (or: leader resign %s); nothing was changed",
		cli.Printable(queue[0].Holder), r, queue[0].Token, r)
}

// logLeader logs the leader for which the campaign may have to wait.
func (i *impatient) logLeader(ctx context.Context, r fence.Resource) {
	ctx, cancel := coordinators.Patience(ctx, i.Settings.SessionTimeout)
	defer cancel()
	if queue, err := i.Candidates(ctx, r); err == nil && len(queue) > 0 {
		i.Log.Info("another process leads; waiting for its term to end", "leader", queue[0].Holder,
			"token", queue[0].Token.String(), "at_most", i.Settings.SessionTimeout.String())
	}
}
