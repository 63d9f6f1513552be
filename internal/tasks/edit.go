package tasks

import (
	"context"
	"errors"
	"fmt"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/cli"
	"github.com/ringfence/ringfence/internal/coordinators"
)

// edit changes a saved checkpoint, under the term of whoever calls it.
type edit func(ctx context.Context, t *fence.Term, j checkpoint.Journal, task checkpoint.Name) (checkpoint.Checkpoint, error)

// Resume is the subcommand task resume. It returns the exit code.
func (s *Session) Resume(ctx context.Context) int {
	return s.edit(ctx, checkpoint.Resume)
}

// Restart is the subcommand task restart. It returns the exit code.
func (s *Session) Restart(ctx context.Context) int {
	return s.edit(ctx, checkpoint.Restart)
}

// edit leads for as long as it takes to change the checkpoint.
func (s *Session) edit(ctx context.Context, change edit) int {
	journal, shut, err := s.journal(ctx)
	if err != nil {
		return cli.Failed(ctx, s.Log, "open the journal; nothing was changed", s.scrubbed(err))
	}
	defer shut()
	before, err := s.saved(ctx, journal)
	if err != nil {
		return cli.Failed(ctx, s.Log, "read the checkpoint; nothing was changed", s.scrubbed(err))
	}
	lead := fence.Lead{
		Elector: &impatient{s.Coordinator, s}, Resource: before.Resource, Holder: s.Settings.Holder, Stores: append(s.raisers(), journal),
	}
	var after checkpoint.Checkpoint
	err = lead.Run(ctx, func(ctx context.Context, t *fence.Term) (err error) {
		after, err = change(ctx, t, journal, s.Name)
		return err
	})
	if after.Version > before.Version {
		fmt.Fprintf(s.Stdout, "task %s is %s at step %s, run %d; start leader task to go on\n", after.Task, after.Status, place(after), after.Run)
		return cli.Done // whatever became of the resignation
	}
	if err != nil {
		return cli.Failed(ctx, s.Log, "change the checkpoint", s.scrubbed(err))
	}
	fmt.Fprintf(s.Stdout, "task %s is %s, not stopped; nothing was changed\n", after.Task, after.Status)
	return cli.Done
}

// saved is the checkpoint as it stands. A name does not say which resource's leader may change it; the checkpoint does.
func (s *Session) saved(ctx context.Context, j checkpoint.Journal) (checkpoint.Checkpoint, error) {
	ctx, cancel := coordinators.Patience(ctx, s.Settings.SessionTimeout)
	defer cancel()
	found, err := j.Load(ctx, s.Name)
	switch {
	case err != nil:
		u, _ := s.journalURL()
		return checkpoint.Checkpoint{}, fmt.Errorf("%w: %s", err, loadHint(kindOf(u), err))
	case len(found) == 0:
		return checkpoint.Checkpoint{}, fmt.Errorf("%w: %s was never begun", checkpoint.ErrNotFound, s.Name)
	case s.File != nil && found[0].Resource != s.File.Resource:
		return checkpoint.Checkpoint{}, fmt.Errorf("%w: it was run by leaders of %q, the file says %q", checkpoint.ErrOtherResource, found[0].Resource, s.File.Resource)
	}
	return found[0], nil
}

// impatient is an elector that waits only for a leader that is about to end, or has died a moment ago.
type impatient struct {
	fence.Coordinator
	*Session
}

// Campaign implements fence.Elector.
func (i *impatient) Campaign(ctx context.Context, r fence.Resource, holder string) (*fence.Term, error) {
	i.tellWho(ctx, r)
	bounded, cancel := coordinators.Patience(ctx, i.Settings.SessionTimeout)
	defer cancel()
	term, err := i.Coordinator.Campaign(bounded, r, holder)
	if err == nil || bounded.Err() == nil || ctx.Err() != nil {
		return term, err
	}
	asking, stop := coordinators.Patience(ctx, i.Settings.SessionTimeout)
	defer stop()
	queue, asked := i.Candidates(asking, r)
	if asked != nil || len(queue) == 0 {
		return nil, errors.Join(err, asked)
	}
	return nil, fmt.Errorf("%s leads %s with token %s, and only a leader may change its tasks: that one has to stop first (or: leader resign %s); nothing was changed",
		cli.Printable(queue[0].Holder), r, queue[0].Token, r)
}

// tellWho says whom the campaign may have to wait for.
func (i *impatient) tellWho(ctx context.Context, r fence.Resource) {
	ctx, cancel := coordinators.Patience(ctx, i.Settings.SessionTimeout)
	defer cancel()
	if queue, err := i.Candidates(ctx, r); err == nil && len(queue) > 0 {
		i.Log.Info("somebody else leads; waiting a while for the end of that", "leader", queue[0].Holder, "token", queue[0].Token.String(), "at_most", i.Settings.SessionTimeout.String())
	}
}
