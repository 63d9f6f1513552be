package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
)

// edit changes a saved checkpoint, under the term of whoever calls it.
type edit func(ctx context.Context, t *fence.Term, j checkpoint.Journal, task checkpoint.Name) (checkpoint.Checkpoint, error)

// resumeTask is the subcommand task resume.
func (p *program) resumeTask(ctx context.Context, s *session) int {
	return p.edit(ctx, s, checkpoint.Resume)
}

// restartTask is the subcommand task restart.
func (p *program) restartTask(ctx context.Context, s *session) int {
	return p.edit(ctx, s, checkpoint.Restart)
}

// edit leads for as long as it takes to change the checkpoint.
func (p *program) edit(ctx context.Context, s *session, change edit) int {
	journal, shut, err := p.journal(ctx, s)
	if err != nil {
		return p.failed(ctx, s.log, "open the journal; nothing was changed", s.scrubbed(err))
	}
	defer shut()
	before, err := s.saved(ctx, journal)
	if err != nil {
		return p.failed(ctx, s.log, "read the checkpoint; nothing was changed", s.scrubbed(err))
	}
	lead := fence.Lead{
		Elector: &impatient{s.coordinator, s}, Resource: before.Resource, Holder: s.config.Holder, Stores: append(p.raisers(s), journal),
	}
	var after checkpoint.Checkpoint
	err = lead.Run(ctx, func(ctx context.Context, t *fence.Term) (err error) {
		after, err = change(ctx, t, journal, s.task.name)
		return err
	})
	if after.Version > before.Version {
		fmt.Fprintf(p.stdout, "task %s is %s at step %s, run %d; start leader task to go on\n", after.Task, after.Status, place(after), after.Run)
		return exitDone // whatever became of the resignation
	}
	if err != nil {
		return p.failed(ctx, s.log, "change the checkpoint", s.scrubbed(err))
	}
	fmt.Fprintf(p.stdout, "task %s is %s, not stopped; nothing was changed\n", after.Task, after.Status)
	return exitDone
}

// saved is the checkpoint as it stands. A name does not say which resource's leader may change it; the checkpoint does.
func (s *session) saved(ctx context.Context, j checkpoint.Journal) (checkpoint.Checkpoint, error) {
	ctx, cancel := s.patience(ctx)
	defer cancel()
	found, err := j.Load(ctx, s.task.name)
	switch {
	case err != nil:
		u, _ := s.journalURL()
		return checkpoint.Checkpoint{}, fmt.Errorf("%w: %s", err, loadHint(kindOf(u), err))
	case len(found) == 0:
		return checkpoint.Checkpoint{}, fmt.Errorf("%w: %s was never begun", checkpoint.ErrNotFound, s.task.name)
	case s.file != nil && found[0].Resource != s.file.Resource:
		return checkpoint.Checkpoint{}, fmt.Errorf("%w: it was run by leaders of %q, the file says %q", checkpoint.ErrOtherResource, found[0].Resource, s.file.Resource)
	}
	return found[0], nil
}

// impatient is an elector that waits only for a leader that is about to end, or has died a moment ago.
type impatient struct {
	fence.Coordinator
	*session
}

// Campaign implements fence.Elector.
func (i *impatient) Campaign(ctx context.Context, r fence.Resource, holder string) (*fence.Term, error) {
	i.tellWho(ctx, r)
	bounded, cancel := i.patience(ctx)
	defer cancel()
	term, err := i.Coordinator.Campaign(bounded, r, holder)
	if err == nil || bounded.Err() == nil || ctx.Err() != nil {
		return term, err
	}
	asking, stop := i.patience(ctx)
	defer stop()
	queue, asked := i.Candidates(asking, r)
	if asked != nil || len(queue) == 0 {
		return nil, errors.Join(err, asked)
	}
	return nil, fmt.Errorf("%s leads %s with token %s, and only a leader may change its tasks: that one has to stop first (or: leader resign %s); nothing was changed",
		printable(queue[0].Holder), r, queue[0].Token, r)
}

// tellWho says whom the campaign may have to wait for.
func (i *impatient) tellWho(ctx context.Context, r fence.Resource) {
	ctx, cancel := i.patience(ctx)
	defer cancel()
	if queue, err := i.Candidates(ctx, r); err == nil && len(queue) > 0 {
		i.log.Info("somebody else leads; waiting a while for the end of that", "leader", queue[0].Holder, "token", queue[0].Token.String(), "at_most", i.config.SessionTimeout.String())
	}
}
